"""A year of a fleet whose cameras take an image an hour."""
