"""A stored ledger with an entry of every kind."""
