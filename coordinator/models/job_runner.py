"""Runner of jobs that take longer than a message may wait: checks, solving, exports.

Jobs run on two threads, one for payloads and one for models, so that a long solve does not keep
receipts waiting. Each job ends in inputs for the core; results wait until the shell takes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fleetledger.coordinator.core.inputs import Input
from fleetledger.runtime.problems import OpenProblem
from fleetledger.runtime.progress import JobProgress
from fleetledger.schemas.values import Digest
from fleetledger.transport.results import JobQueue


@dataclass(frozen=True)
class Finished:
    """What a job gives: an input, and the small blobs to be committed with its entries."""

    happening: Input
    small_blobs: dict[Digest, bytes] = field(default_factory=dict)
    json_bytes: int = 0
    """What it took to read the payload that it is about, as bytes of JSON."""


LONG_JOB_SECONDS = 600.0
"""After which a job is reported although it progresses."""
Job = Callable[[], Sequence[Finished]]


class JobRunner(Protocol):
    """Runs model and payload jobs."""

    def payload_job(self, job: Job) -> None:
        """Run a job about a payload."""

    def model_job(self, job: Job) -> None:
        """Run a job about a model."""

    def put(self, *finished: Finished) -> None:
        """Add results that somebody else came by."""

    def fail(self, error: BaseException) -> None:
        """Have `results` raise an error from elsewhere, such as a thread's."""

    def results(self) -> list[Finished]:
        """Take what is finished; raise what a job raised."""

    def problems(self) -> Iterable[OpenProblem]:
        """Return what is wrong with jobs under way."""

    def stop(self) -> None:
        """Drop what has not begun and wait for what has."""


class ThreadJobRunner:
    """Two threads and a queue of results; `on_finished` wakes whoever waits for results."""

    def __init__(
        self, on_finished: Callable[[], None], seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._progress = tuple(JobProgress("coordinator", seconds) for _ in range(2))
        self._jobs: JobQueue[Sequence[Finished]] = JobQueue(
            on_finished, "jobs", "payloads", "models"
        )
        self.fail, self.stop = self._jobs.fail, self._jobs.stop

    def payload_job(self, job: Job) -> None:
        """Run a job on the payload thread."""
        self._jobs.submit(lambda: _worked(self._progress[0], "check of payloads", job), "payloads")

    def model_job(self, job: Job) -> None:
        """Run a job on the model thread."""
        self._jobs.submit(lambda: _worked(self._progress[1], "making of models", job), "models")

    def problems(self) -> Iterator[OpenProblem]:
        """Yield jobs that do not get on, or take long."""
        for progress in self._progress:
            if hangs := progress.hangs():
                yield OpenProblem("work", hangs, hinders=True, key="hangs")
            elif long := progress.describe(LONG_JOB_SECONDS):
                yield OpenProblem("work", f"{long}; it gets on", key="long")

    def put(self, *finished: Finished) -> None:
        """Add results that some other thread came by."""
        self._jobs.put(finished)

    def results(self) -> list[Finished]:
        """Take what is finished; raise what a job raised, since no job may fail in silence."""
        return [item for several in self._jobs.collect() for item in several]


def _worked(progress: JobProgress, name: str, job: Job) -> Sequence[Finished]:
    with progress.working(name, by_processor=True):
        return job()
