"""The watch over a serving coordinator: what keeps it from its work, with its dates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from fleetledger.runtime.log_lines import about
from fleetledger.runtime.problems import DatedProblem, OpenProblem, ProblemBook
from fleetledger.transport.clock import Clock

log = logging.getLogger("coordinator")

_LOGGED = frozenset({"ledger", "operator", "broker", "coordinator"})
"""Problems that are logged where they are met."""

ProblemSource = Callable[[], Iterable[OpenProblem]]
"""Returns what is wrong with one part of the coordinator now."""


class CoordinatorWatch:
    """Looks at every part that may wait without end; one thread uses it."""

    def __init__(self, clock: Clock, problem_sources: Iterable[ProblemSource]) -> None:
        self._clock = clock
        self._problem_sources = tuple(problem_sources)
        self._book = ProblemBook()

    def check(self) -> tuple[DatedProblem, ...]:
        """Return what is wrong now and has outlasted its patience; log what begins and ends."""
        found = [problem for source in self._problem_sources for problem in source()]
        new, over = self._book.update(found, self._clock.seconds(), self._clock.time_ns())
        for problem in new:
            if problem.about not in _LOGGED:
                said = about("coordinator.hindered", part=problem.about)
                log.warning("%s", problem.text, extra=said)
        for problem in over:
            if problem.about not in _LOGGED:
                said = about("coordinator.recovered", part=problem.about)
                log.warning("is over: %s", problem.text, extra=said)
        return self._book.current
