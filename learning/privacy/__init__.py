"""What hides one device's numbers: masks that vanish in a sum, shares of secrets, noise."""
