"""One command that measures local training on a GPU, within a budget of time."""
