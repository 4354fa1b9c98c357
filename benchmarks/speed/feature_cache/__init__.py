"""A device's cache of features, against computing them."""
