"""Differential privacy: noise whose distribution is exact, and what a list of releases spends."""
