"""Variants of a lineage's frozen part: the same backbone in fewer bits, before the same map."""
