"""What a ledger is read by: reports of the state, and a sentence for each kind of entry."""
