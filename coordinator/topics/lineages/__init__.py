"""Lineages: the frozen model whose features count, or the network that the fleet trains."""
