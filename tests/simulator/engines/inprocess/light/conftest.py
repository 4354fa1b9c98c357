"""Torch computes on one thread here."""

from tests.learning.training.threads import one_thread

__all__ = ["one_thread"]
