"""Rounds of training: who is asked, what counts, and what comes of it."""
