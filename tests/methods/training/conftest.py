"""Every method trains on one thread: with more, a fused step rounds its last numbers apart."""

from tests.learning.training.threads import one_thread

__all__ = ["one_thread"]
