"""A ledger with an entry of every kind, by a former version of the program."""
