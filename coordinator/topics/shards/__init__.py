"""The shards that the ledger's log is in: when the next one begins."""
