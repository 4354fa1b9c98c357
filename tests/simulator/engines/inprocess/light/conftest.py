"""Torch computes on one thread here, and what is kept of data sets lies in the test's folder."""

from tests.learning.training.threads import one_thread
from tests.simulator.rounds.conftest import own_cache

__all__ = ["one_thread", "own_cache"]
