"""Rollouts: a model goes out group by group, as long as devices measure that it keeps its word."""
