"""Masked sums beside Flower's SecAgg+: seconds of a device and of the server, and bytes."""
