"""Group appends to the ledger, as a ratio to bare SQLite on the same disk."""
