"""One folder per method: two pure halves joined by messages."""
