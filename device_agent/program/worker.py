"""Work that takes long: a queue of requests, and the inputs that answer them.

The agent does it on a thread of its own, so that the control loop stays responsive.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from fleetledger.device_agent.core import requests
from fleetledger.device_agent.core.inputs import Input
from fleetledger.runtime.progress import JobProgress
from fleetledger.transport.errors import ThreadEndedError
from fleetledger.transport.results import ResultQueue

_JOBS: dict[type[object], str] = {
    requests.Scan: "scan of the data folder",
    requests.ComputePart: "counting of a part",
    requests.Train: "training",
    requests.ReadManifest: "reading of a manifest",
    requests.InstallModel: "trial and installation of a model",
    requests.ShadowModel: "trial of a candidate",
    requests.ForgetCandidate: "removal of a candidate",
    requests.Compare: "comparison of two models",
    requests.ReadThrottling: "reading of the machine's counters",
    requests.CheckActiveModel: "test of the active model",
    requests.Evaluate: "evaluation on held-out samples",
    requests.Measure: "measuring of new samples",
}
"""Requests of the device jobs, in words."""

log = logging.getLogger("device_agent")

Answer = Callable[[requests.Request], tuple[Input, ...]]


class AgentWorker(Protocol):
    """Whoever does the work of an agent."""

    def start(self) -> None:
        """Begin."""

    def stop(self, seconds: float) -> None:
        """End after the request under way; give up waiting for it after `seconds`."""

    def submit(self, request: requests.Request) -> None:
        """Queue a request."""

    @property
    def progress(self) -> JobProgress | None:
        """Return what the work is at; None where it is done before anybody could look."""

    def put(self, event: Input) -> None:
        """Add an input from elsewhere, such as a finished transfer; from any thread."""

    def fail(self, error: Exception) -> None:
        """Have `collect` raise an error from elsewhere, such as a thread's; from any thread."""

    def collect(self) -> list[Input]:
        """Take the inputs so far; raise what the work raised, since no bug may stay silent."""


class WorkerThread(ResultQueue[Input]):
    """Answers requests in their order; `on_answer` wakes whoever collects the inputs.

    `rest` is called, after the answers are there to collect, where no other request waits.
    """

    def __init__(
        self, answer: Answer, on_answer: Callable[[], None], rest: Callable[[], None]
    ) -> None:
        super().__init__(on_answer, "worker")
        self._answer = answer
        self._rest = rest
        self._requests: SimpleQueue[requests.Request | None] = SimpleQueue()
        self._stopping = threading.Event()
        self.progress = JobProgress("agent")
        """What the work is at."""
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End after the request under way; give up waiting for it after `seconds`.

        What was not finished is begun again after the next start.
        """
        self._stopping.set()
        self._requests.put(None)
        self._thread.join(seconds)

    def submit(self, request: requests.Request) -> None:
        """Queue a request."""
        self._requests.put(request)

    def _run(self) -> None:
        while True:
            request = self._requests.get()
            if request is None or self._stopping.is_set():
                return
            try:
                silent = isinstance(request, requests.Train)
                with self.progress.working(_job(request), by_processor=silent):
                    answers = self._answer(request)
            except Exception as error:
                log.exception("failure in %s", type(request).__name__)
                self.fail(ThreadEndedError("worker", error))
            else:
                for item in answers:
                    self.put(item)
                if self._requests.empty():
                    self._rest()


def _job(request: requests.Request) -> str:
    return _JOBS.get(type(request), type(request).__name__)
