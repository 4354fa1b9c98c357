"""Which way trains works of a kind faster here: a few batches of each are timed, once.

What was found is looked up where the settings have a place for it, and kept there: for a kind of
work, which is a network with its loss, batches, inputs, precision, and a number of agents; and for
the versions and threads that it was found with. Without such a place it is measured every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from fleetledger.learning.training.work import Work

Kind = Mapping[str, str | int]
"""What is timed and where, as the file of a calibration tells it."""

_LEAST = 1e-9


@dataclass(frozen=True)
class Calibration:
    """Seconds of one agent's batches: trained alone, and as one of a stack."""

    loop: float
    stack: float

    @property
    def stack_is_faster(self) -> bool:
        """Whether a stack is worth while."""
        return self.stack < self.loop


class Calibrations(Protocol):
    """Where calibrations are kept."""

    def find(self, kind: Kind, versions: Kind) -> Calibration | None:
        """Return what was found for a kind of work with these versions; None where nothing was."""
        ...

    def keep(self, kind: Kind, versions: Kind, found: Calibration) -> None:
        """Keep what was found."""
        ...


def versions_here() -> Kind:
    """Return what a calibration holds for beside its kind: it is stale with others."""
    return {"torch": torch.__version__, "threads": torch.get_num_threads()}


def agents_timed(agents: int, most: int) -> int:
    """Return how many of `agents` are timed in a stack: a power of two, `most` at most.

    Cohorts of a few agents more or less are then of one kind.
    """
    return min(most, 1 << (agents.bit_length() - 1))


def shortest(run: Callable[[], object], times: int) -> float:
    """Return the seconds of the shortest of some runs: the first warms up, others are disturbed."""
    return max(_LEAST, min(_seconds(run) for _ in range(times)))


def by_size(works: Sequence[Work], count: int) -> list[Work]:
    """Return the works with the most samples."""
    return sorted(works, key=lambda work: -len(work.data))[:count]


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
