"""How long a switch of the model takes as an application sees it; README.md tells the result."""
