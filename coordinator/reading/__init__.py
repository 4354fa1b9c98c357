"""What a ledger is read by: all tables, and a sentence for each kind of entry."""
