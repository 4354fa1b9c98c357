"""Keys of devices: whose signature counts as whose."""
