"""Agent inside an application: threads of its own, and samples that are given in a call."""
