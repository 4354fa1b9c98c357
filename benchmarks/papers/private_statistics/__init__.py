"""Accuracy of statistics with differential privacy."""
