"""How often the model that runs here was asked, and how long it took for a sample."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets in seconds for one sample; one without bound follows."""
_NEWEST = 500
_SHARE = 0.95


@dataclass(frozen=True)
class Inferences:
    """What was counted since the agent began."""

    count: int = 0
    """Samples."""
    seconds: float = 0.0
    """Of all of them."""
    buckets: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    """Samples by what one took, as `BOUNDS` has it; not added up."""
    p95_seconds: float | None = None
    """Of the newest hundreds of samples; None where there was none."""


@dataclass
class InferenceMeter:
    """Counts on the thread that asks the model; read from any."""

    _count: int = 0
    _seconds: float = 0.0
    _buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    _newest: deque[float] = field(default_factory=lambda: deque(maxlen=_NEWEST))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, samples: int, seconds: float) -> None:
        """Note that the model was asked about so many samples at once."""
        if samples <= 0:
            return
        each = seconds / samples
        with self._lock:
            self._count += samples
            self._seconds += seconds
            self._buckets[bisect_left(BOUNDS, each)] += samples
            self._newest.extend([each] * min(samples, _NEWEST))

    def now(self) -> Inferences:
        """Return what was counted so far."""
        with self._lock:
            newest = sorted(self._newest)
            p95 = newest[round(_SHARE * (len(newest) - 1))] if newest else None
            return Inferences(self._count, self._seconds, tuple(self._buckets), p95)
