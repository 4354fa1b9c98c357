"""Counting characters, beside fleets that learn to predict them."""
