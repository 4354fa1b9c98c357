"""Worker for scoring jobs, each of which ends in an input."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Protocol

from fleetledger.coordinator.proxy.inputs import Input
from fleetledger.transport.errors import ThreadEndedError

log = logging.getLogger("coordinator.proxy")

Job = Callable[[], Input]


class ScoringWorker(Protocol):
    """Runs the scoring jobs of a proxy."""

    def submit(self, job: Job) -> None:
        """Do a job, after those before it."""

    def put(self, happening: Input) -> None:
        """Add an input from elsewhere, such as a finished transfer; from any thread."""

    def collect(self) -> list[Input]:
        """Take the inputs so far; raise what a job raised, since no bug may stay silent."""

    def stop(self) -> None:
        """Drop what has not begun and wait for what has."""


class ScoringThread:
    """One thread, on which torch runs; `wake` wakes the shell for a result."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._thread = ThreadPoolExecutor(1, "scoring")
        self._results: SimpleQueue[Input | BaseException] = SimpleQueue()

    def submit(self, job: Job) -> None:
        """Do a job, after those before it."""
        self._thread.submit(job).add_done_callback(self._done)

    def put(self, happening: Input) -> None:
        """Add an input from elsewhere; from any thread."""
        self._results.put(happening)
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Have `collect` raise an error from elsewhere, such as a thread's; from any thread."""
        self._results.put(error)
        self._wake()

    def collect(self) -> list[Input]:
        """Take the inputs so far; raise what a job raised."""
        taken: list[Input] = []
        while True:
            try:
                item = self._results.get_nowait()
            except Empty:
                return taken
            if isinstance(item, BaseException):
                raise item
            taken.append(item)

    def stop(self) -> None:
        """Drop what has not begun and wait for what has."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _done(self, job: Future[Input]) -> None:
        if job.cancelled():
            return
        error = job.exception()
        if error is None:
            self.put(job.result())
        else:
            log.error("a job failed", exc_info=error)
            self.fail(ThreadEndedError("scoring", error))
