"""Intake workers are kept going: one that hangs is named, ended and replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import pytest

from fleetledger.coordinator.program.workers import processes
from fleetledger.coordinator.program.workers.frames import WorkerTurn, frame_of
from fleetledger.coordinator.program.workers.processes import IntakeWorkers
from fleetledger.coordinator.program.workers.worker import WorkerPlan

PATIENCE = 60.0


def speaks_once(_: WorkerPlan, pipe: Pipe, *_known: object) -> None:
    """Be a worker that takes one turn and then hangs."""
    pipe.send_bytes(frame_of(WorkerTurn()))
    time.sleep(10 * PATIENCE)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def running(workers: IntakeWorkers) -> Iterator[None]:
    workers.start()
    try:
        yield
    finally:
        workers.stop()


def test_a_worker_that_hangs_is_named_and_another_one_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "work", speaks_once)
    monkeypatch.setattr(processes, "HANGS_SECONDS", 0.5)
    workers = IntakeWorkers([WorkerPlan(tmp_path, 1, ())], wake=lambda: None)
    with running(workers):
        until(lambda: bool(workers.processes))
        (first,) = workers.processes
        told: list[str] = []

        def named() -> bool:
            told.extend(problem.text for problem in workers.problems())
            return bool(told)

        until(named)
        assert f"intake worker 1 (process {first}) has not got on for a minute" in told[0]
        until(lambda: workers.processes not in ((), (first,)))
