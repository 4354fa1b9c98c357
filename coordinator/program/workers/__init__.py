"""Processes that read and check what devices send, for the one that decides and commits."""
