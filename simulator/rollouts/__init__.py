"""Rollouts in the simulator: candidates, what devices measure them on, and what came of them."""
