"""Roots and releases: which keys the fleet believes, and what they let out."""
