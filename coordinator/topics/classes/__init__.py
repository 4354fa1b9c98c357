"""Names of classes: their indices, renamed and merged."""
