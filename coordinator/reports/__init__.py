"""Reports on the state of a ledger, and a sentence for each kind of entry."""
