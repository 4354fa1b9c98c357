"""Mathematics that methods share. Knows nothing of messages."""
