"""How the device is: its machine, the inferences of its model, and who is told."""
