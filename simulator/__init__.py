"""Scenarios and demonstrations: data sets, partitions, whole fleets on one machine."""
