"""Two models on the same images of this device, in counts that tell of no single image."""
