"""SHA-256 of payloads beside BLAKE3."""
