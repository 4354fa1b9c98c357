"""Runner of jobs that take longer than a message may wait: checks, solving, exports.

Jobs run on two threads, one for payloads and one for models, so that a long solve does not keep
receipts waiting. Each job ends in inputs for the core; results wait until the shell takes them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Protocol

from fleetledger.coordinator.core.inputs import Input
from fleetledger.schemas.problems import OpenProblem
from fleetledger.schemas.progress import JobProgress
from fleetledger.schemas.values import Digest
from fleetledger.transport.errors import ThreadEndedError

log = logging.getLogger("coordinator.models.job_runner")


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
        self._on_finished = on_finished
        self._payloads = ThreadPoolExecutor(1, "payloads")
        self._models = ThreadPoolExecutor(1, "models")
        self._progress = tuple(JobProgress("coordinator", seconds) for _ in range(2))
        self._results: SimpleQueue[Sequence[Finished]] = SimpleQueue()
        self._broken: SimpleQueue[BaseException] = SimpleQueue()

    def payload_job(self, job: Job) -> None:
        """Run a job on the payload thread."""
        self._payloads.submit(
            _worked, self._progress[0], "check of payloads", job
        ).add_done_callback(self._done)

    def model_job(self, job: Job) -> None:
        """Run a job on the model thread."""
        self._models.submit(_worked, self._progress[1], "making of models", job).add_done_callback(
            self._done
        )

    def problems(self) -> Iterator[OpenProblem]:
        """Yield jobs that do not get on, or take long."""
        for progress in self._progress:
            if hangs := progress.hangs():
                yield OpenProblem("work", hangs, hinders=True, key="hangs")
            elif long := progress.describe(LONG_JOB_SECONDS):
                yield OpenProblem("work", f"{long}; it gets on", key="long")

    def put(self, *finished: Finished) -> None:
        """Add results that some other thread came by."""
        self._results.put(finished)
        self._on_finished()

    def fail(self, error: BaseException) -> None:
        """Have `results` raise an error from elsewhere, such as a thread's; from any thread."""
        self._broken.put(error)
        self._on_finished()

    def results(self) -> list[Finished]:
        """Take what is finished; raise what a job raised, since no job may fail in silence."""
        taken: list[Finished] = []
        try:
            raise self._broken.get_nowait()
        except Empty:
            pass  # no job broke
        while len(taken) < _MOST_AT_ONCE:
            try:
                taken.extend(self._results.get_nowait())
            except Empty:
                break
        if not self._results.empty():
            self._on_finished()  # wakes came together into one, and the rest must not wait for more
        return taken

    def stop(self) -> None:
        """Drop what has not begun and wait for what has."""
        self._payloads.shutdown(wait=True, cancel_futures=True)
        self._models.shutdown(wait=True, cancel_futures=True)

    def _done(self, job: Future[Sequence[Finished]]) -> None:
        if job.cancelled():
            return
        error = job.exception()
        if error is None:
            self.put(*job.result())
        else:
            log.error("a job failed", exc_info=error)
            self.fail(ThreadEndedError("jobs", error))


def _worked(progress: JobProgress, name: str, job: Job) -> Sequence[Finished]:
    with progress.working(name, by_processor=True):
        return job()


_MOST_AT_ONCE = 64
