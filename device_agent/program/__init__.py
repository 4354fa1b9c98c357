"""The running agent: two connections, a queue of jobs, and one loop around the rules of `core`."""
