"""Results of other threads, which one loop takes: finished jobs, finished transfers, failures."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from fleetledger.transport.errors import ThreadEndedError

log = logging.getLogger(__name__)

_MOST_AT_ONCE = 64
"""Results of one turn of the loop; the rest is taken in the next one."""

Result = TypeVar("Result")


class ResultQueue(Generic[Result]):
    """A queue that any thread fills; `wake` wakes the loop that takes from it.

    `worker` names in an error the thread whose job failed.
    """

    def __init__(self, wake: Callable[[], None], worker: str) -> None:
        self._wake = wake
        self._worker = worker
        self._results: SimpleQueue[Result | BaseException] = SimpleQueue()

    def put(self, result: Result) -> None:
        """Add a result; from any thread."""
        self._results.put(result)
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Have `collect` raise an error, such as the end of a thread; from any thread."""
        self._results.put(error)
        self._wake()

    def collect(self) -> list[Result]:
        """Take the results so far; raise the error of a job, since no bug may stay silent."""
        taken: list[Result] = []
        while len(taken) < _MOST_AT_ONCE:
            try:
                item = self._results.get_nowait()
            except Empty:
                return taken
            if isinstance(item, BaseException):
                raise item
            taken.append(item)
        self._wake()  # wakes came together into one, and the rest must not wait for more
        return taken


class JobQueue(ResultQueue[Result]):
    """Threads that do jobs, each in the order in which it was given them, and their results."""

    def __init__(self, wake: Callable[[], None], worker: str, *threads: str) -> None:
        """Begin no thread before its first job; without names there is one, named as `worker`."""
        super().__init__(wake, worker)
        self._threads = {name: ThreadPoolExecutor(1, name) for name in threads or (worker,)}

    def submit(self, job: Callable[[], Result], thread: str = "") -> None:
        """Have a thread do a job, after those before it."""
        self._threads[thread or self._worker].submit(job).add_done_callback(self._finish)

    def stop(self) -> None:
        """Drop what has not begun and wait for what has."""
        for thread in self._threads.values():
            thread.shutdown(wait=True, cancel_futures=True)

    def _finish(self, job: Future[Result]) -> None:
        if job.cancelled():
            return
        error = job.exception()
        if error is None:
            self.put(job.result())
        else:
            log.error("a job failed", exc_info=error)
            self.fail(ThreadEndedError(self._worker, error))
