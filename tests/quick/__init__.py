"""The tests of `make quick`: both cores, the schemas, and what is near to what changed."""
