"""How the fleet is just now: who is there, how devices are, and counters, in a file of its own."""
