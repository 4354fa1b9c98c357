"""The demo: a whole fleet of real processes on one machine learns handwritten digits in stages."""
