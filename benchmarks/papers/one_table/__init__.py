"""One table of all methods on one footing: the same features, devices, rounds and bytes."""
