"""What each step costs that a contribution takes in schemas, learning and methods."""
