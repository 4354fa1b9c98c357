"""Rollouts as people read them."""
