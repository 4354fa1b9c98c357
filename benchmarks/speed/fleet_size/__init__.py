"""What a coordinator holds and takes for a thousand devices, and for a hundred thousand."""
