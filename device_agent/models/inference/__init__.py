"""Inference with the active model: the model in memory, and how applications ask it."""
