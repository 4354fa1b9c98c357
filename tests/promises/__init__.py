"""The promises of docs/promises.md that need a run of their own, one file each."""
