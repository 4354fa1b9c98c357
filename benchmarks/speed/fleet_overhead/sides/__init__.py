"""One program per side; each measures itself in a process of its own and prints JSON."""
