"""What simulated agents cost in one process; README.md tells the result."""
