"""What things cost: seconds, bytes and memory, each beside a floor, a peer or the commit before."""
