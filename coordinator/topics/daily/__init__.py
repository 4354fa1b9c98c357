"""Daily bounds: how much one device may add to the ledger in a day."""
