"""LGA's local training against a bare torch loop of the same network."""
