"""How many kernels, copies and waits a local step takes, counted on a fake accelerator."""
