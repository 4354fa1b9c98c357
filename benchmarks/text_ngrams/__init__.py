"""Counting characters, beside fleets that learn to foretell them."""
