"""Attacks on what devices install; none may be accepted."""
