"""How long a ledger of many entries takes to open, to ask and to verify."""
