"""Tests of masked cohorts at the coordinator."""
