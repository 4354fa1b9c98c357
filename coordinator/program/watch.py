"""The watch over a serving coordinator: what keeps it from its work, with its dates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from fleetledger.schemas.log_lines import about
from fleetledger.schemas.problems import DatedProblem, OpenProblem, ProblemBook
from fleetledger.transport.clock import Clock

log = logging.getLogger("coordinator")

_LOGGED = frozenset({"ledger", "operator", "broker", "coordinator"})
"""Problems that are logged where they are met."""

Look = Callable[[], Iterable[OpenProblem]]
"""Returns what is wrong with one part of the coordinator now."""


class ServingWatch:
    """Looks at every part that may wait without end; one thread uses it."""

    def __init__(self, clock: Clock, looks: Iterable[Look]) -> None:
        self._clock = clock
        self._looks = tuple(looks)
        self._book = ProblemBook()

    def look(self) -> tuple[DatedProblem, ...]:
        """Return what is wrong now and has outlasted its patience; log what begins and ends."""
        found = [problem for look in self._looks for problem in look()]
        new, over = self._book.look(found, self._clock.seconds(), self._clock.time_ns())
        for problem in new:
            if problem.about not in _LOGGED:
                said = about("coordinator.hindered", part=problem.about)
                log.warning("%s", problem.text, extra=said)
        for problem in over:
            if problem.about not in _LOGGED:
                said = about("coordinator.recovered", part=problem.about)
                log.warning("is over: %s", problem.text, extra=said)
        return self._book.current
