"""Masked cohorts: devices of which the sum is known, and nothing of one alone."""
