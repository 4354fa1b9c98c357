"""Seeded misbehaviour for the in-memory broker."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from fleetledger.transport.interface import IncomingMessage


@dataclass
class Faults:
    """How deliveries go wrong; each number is a probability, and the seed repeats the run.

    A reordered message overtakes up to `reach` messages that wait in the same session.
    """

    seed: int = 0
    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reach: int = 10

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - repeatable faults, no secrets

    def enqueue(self, queue: deque[IncomingMessage], message: IncomingMessage) -> None:
        """Append `message` to `queue` never, once or twice, perhaps out of order."""
        if self._random.random() < self.drop:
            return
        copies = 2 if self._random.random() < self.duplicate else 1
        for _ in range(copies):
            overtaken = 0
            if self._random.random() < self.reorder:
                overtaken = self._random.randint(0, min(self.reach, len(queue)))
            queue.insert(len(queue) - overtaken, message)
