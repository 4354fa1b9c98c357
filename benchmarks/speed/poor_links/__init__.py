"""A model's way to devices over links like a mobile network's."""
