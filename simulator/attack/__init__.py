"""What somebody gets who listens to the gradients that devices send to a proxy."""
