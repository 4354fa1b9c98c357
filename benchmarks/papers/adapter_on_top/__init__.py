"""Whether an adapter trained in rounds gains anything on top of the exact head."""
