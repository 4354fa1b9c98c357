"""The worker gives its answers first, and tidies up once nothing else waits."""

from __future__ import annotations

import threading

from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.program.worker import WorkerThread

SECONDS = 60


def test_the_worker_rests_after_it_has_told_and_not_between_two_requests() -> None:
    told, may_answer, rested = threading.Event(), threading.Event(), threading.Event()
    happened: list[str] = []

    def answer(_: requests.Request) -> tuple[inputs.Input, ...]:
        assert may_answer.wait(SECONDS)
        happened.append("answered")
        return (inputs.EvaluationAsked(),)

    def rest() -> None:
        happened.append(f"rested after {len(worker.collect())}")
        rested.set()

    worker = WorkerThread(answer, told.set, rest)
    worker.start()
    worker.submit(requests.Scan())
    worker.submit(requests.Scan())
    may_answer.set()
    assert rested.wait(SECONDS)
    worker.stop(SECONDS)
    assert told.is_set()
    assert happened == ["answered", "answered", "rested after 2"]
