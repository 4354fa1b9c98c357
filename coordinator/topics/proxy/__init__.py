"""The proxy, as far as the ledger knows it: which old models devices are given, and why."""
