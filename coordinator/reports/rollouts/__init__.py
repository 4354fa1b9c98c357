"""Rollouts as people read them: folded out of the ledger's entries, the same for pages and CLI."""
