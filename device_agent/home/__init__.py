"""What lies on this device: its folder, store, keys and root, and the machine itself."""
