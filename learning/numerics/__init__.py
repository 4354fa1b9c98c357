"""NumPy only: integer features, Gram matrices, ridge regression, preprocessing."""
