"""One folder per method: two pure sides joined by messages."""
