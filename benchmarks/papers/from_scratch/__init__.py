"""A second table of all methods on one footing: pictures, a small network, and no pretraining."""
