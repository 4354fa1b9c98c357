"""Memory of a running agent with a real model; README.md tells the result."""
