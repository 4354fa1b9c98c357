"""Stages: classes that are learned together, and what devices report as new."""
