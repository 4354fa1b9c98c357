"""The coordinator's jobs, done when they are handed in."""

from __future__ import annotations

import time
from collections.abc import Callable

from fleetledger.coordinator.models.job_runner import Finished, Job
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.runtime.problems import OpenProblem
from fleetledger.simulator.virtual.stopwatch import Stopwatch


class InlineJobRunner:
    """A job runner without threads; `on_finished` is called when there are results.

    The stopwatch counts payloads as `intake`, and models as `solve` or `export`.
    """

    def __init__(self, on_finished: Callable[[], None], stopwatch: Stopwatch) -> None:
        self._on_finished = on_finished
        self._stopwatch = stopwatch
        self._results: list[Finished] = []

    def payload_job(self, job: Job) -> None:
        """Run a job about a payload now."""
        with self._stopwatch.phase("intake"):
            finished = job()
        self.put(*finished)

    def model_job(self, job: Job) -> None:
        """Run a job about a model now."""
        began = time.perf_counter()
        finished = job()
        exported = any(isinstance(item.happening, ModelExported) for item in finished)
        self._stopwatch.spent("export" if exported else "solve", time.perf_counter() - began)
        self.put(*finished)

    def put(self, *finished: Finished) -> None:
        """Add results that somebody else came by."""
        self._results.extend(finished)
        self._on_finished()

    def results(self) -> list[Finished]:
        """Take what is finished."""
        taken, self._results = self._results, []
        return taken

    def fail(self, error: BaseException) -> None:
        """End the loop, in which everything is done."""
        raise error

    def problems(self) -> tuple[OpenProblem, ...]:
        """Return nothing: no job is under way when somebody looks."""
        return ()

    def stop(self) -> None:
        """Nothing is under way that could be waited for."""

    @property
    def idle(self) -> bool:
        """Whether all results were taken."""
        return not self._results
