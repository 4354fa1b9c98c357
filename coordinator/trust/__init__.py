"""Keys in files: the coordinator's own, those of releases and roots, and secrets of tokens."""
