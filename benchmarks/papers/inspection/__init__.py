"""Poisoned fleets of statistics: what intake, bounds and inspection find, and what is left."""
