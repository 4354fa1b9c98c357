"""Contributions: what devices give, what counts of it, and what the operator takes out."""
