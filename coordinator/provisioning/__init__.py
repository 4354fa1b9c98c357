"""Kits for many devices at once: a table of devices in, a folder for each of them out."""
