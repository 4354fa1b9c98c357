"""What methods that train share: assignments, updates, their exact mean, what a device keeps."""
