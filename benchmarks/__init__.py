"""What is slow, measured against a floor or a peer in the same run."""
