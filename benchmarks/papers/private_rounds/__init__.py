"""Accuracy of differentially private rounds against epsilon, beside pfl-research."""
