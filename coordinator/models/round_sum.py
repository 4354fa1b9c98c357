"""The answers of a round, added as they are taken in, so that its mean reads none of them again.

The rules:

- an answer is added once it is checked and stored, and each device's once;
- the mean takes the sum only where that is of exactly the answers which the mean is to be of, each
  with the weight that it counts with. Otherwise it reads them from the store, as after a restart,
  or where an answer was stored and does not count. Sums are exact, so both ways give one digest;
- there is one sum, of the newest round, and none of a round whose mean was asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from fleetledger.coordinator.core.work import AverageRound, TakePayload
from fleetledger.learning.errors import LearningError
from fleetledger.methods.training.exchange import Summing
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.values import DeviceId, Digest

_TROUBLE = (FleetledgerError, LearningError, MemoryError)


@dataclass
class _Sum:
    number: int
    total: Summing | None
    """None once something could not be added: then the mean reads."""
    added: dict[DeviceId, tuple[Digest, int]] = field(default_factory=dict)
    """By device the answer, and the samples that it counts with."""


class RoundSum:
    """The sum of the newest round; payloads and the mean may be on threads of their own."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sum: _Sum | None = None
        self._averaged = 0
        """The last round whose mean was asked for."""

    def add(self, request: TakePayload, payload: bytes, begin: Callable[[], Summing]) -> None:
        """Take in an answer that was checked and stored; `begin` makes the round's empty sum."""
        opened, contribution = request.round, request.contribution
        assert opened is not None
        answer = contribution.payload, sum(contribution.samples.values())
        with self._lock:
            current = self._of(opened.number, begin)
            if current is None or current.added.get(request.device) == answer:
                return
            if request.device in current.added:
                current.total = None  # another answer of the same device takes the place of the one
            if current.total is None:
                return
            current.added[request.device] = answer
            try:
                current.total.add(payload, answer[1])
            except _TROUBLE:  # the mean says why, where it meets that, too
                current.total = None

    def take(self, request: AverageRound) -> Summing | None:
        """Return the sum of the answers that a mean is to be of; None where that is not held."""
        with self._lock:
            current, self._sum = self._sum, None
            self._averaged = max(self._averaged, request.opened.number)
        if current is None or current.number != request.opened.number:
            return None
        wanted = Counter((item.payload, item.samples) for item in request.inputs)
        return current.total if Counter(current.added.values()) == wanted else None

    def _of(self, number: int, begin: Callable[[], Summing]) -> _Sum | None:
        """Return the sum of a round, a new one for a new round; None for one that is over."""
        if number <= self._averaged or (self._sum is not None and number < self._sum.number):
            return None
        if self._sum is None or self._sum.number != number:
            try:
                self._sum = _Sum(number, begin())
            except _TROUBLE:  # the mean says why
                self._sum = _Sum(number, None)
        return self._sum
