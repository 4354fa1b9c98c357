"""What each form of STSA costs in bytes, and what it gives in accuracy."""
