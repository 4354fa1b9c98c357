"""One small network, trained by each framework: a program per side that prints a line of JSON."""
