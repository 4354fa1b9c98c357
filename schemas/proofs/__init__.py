"""Proofs about an append-only log, which a device checks without trusting whoever keeps the log."""
