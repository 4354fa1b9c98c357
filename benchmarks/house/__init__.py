"""What the inside of the house costs who lives in it: measured on the source, not by running it."""
