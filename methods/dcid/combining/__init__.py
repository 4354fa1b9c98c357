"""The coordinator's side of each phase: what answers look like, their sum, and what it becomes.

Of all phases but the last of a round and the last of a session the weights stay as they were.
"""
