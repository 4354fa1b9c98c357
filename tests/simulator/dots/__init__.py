"""What programs find that tests start; see `tests.simulator.unrendered`."""
