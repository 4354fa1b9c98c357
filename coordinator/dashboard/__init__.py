"""A page for people, and metrics for programs, of a fleet; a process of its own that only reads."""
