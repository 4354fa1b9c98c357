"""What the machinery of a fleet costs when nobody trains."""
