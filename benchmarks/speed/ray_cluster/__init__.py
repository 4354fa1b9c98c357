"""Workers on Ray beside other ways to train light agents: equal digests, and what they cost."""
