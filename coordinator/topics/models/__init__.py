"""Models: solved, exported, desired, run and measured."""
