"""A worker with an accelerator of its own has the fleet's samples there once for a run.

The worker is in the test's process, and its accelerator the fake one, which computes as the
processor does.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from benchmarks.speed.kernel_counts.accelerator import DEVICE, FakeAccelerator
from fleetledger.learning.training import memory
from fleetledger.simulator.engines.inprocess.light import fleet
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.inprocess.light.workers import lots
from fleetledger.simulator.engines.inprocess.light.workers.lots import Worker
from fleetledger.simulator.virtual import training
from tests.simulator.engines.inprocess.light.both import learn
from tests.simulator.engines.inprocess.light.workers.small import assert_same, with_workers
from tests.simulator.rounds.small import prepared, small

pytestmark = pytest.mark.torch

ROUNDS = 3
UPLOAD = "learning/training/resident.py:of"


class PoolHere:
    """A pool whose worker shares the engine's process, and has done what it is asked at once."""

    engine_trains = False

    def __init__(self, place: CohortResources, _engine: Any) -> None:
        from fleetledger.simulator.engines.inprocess.light.workers import lot_trainer

        self._trainer = lot_trainer.LotTrainer(place, {})

    def start(self) -> Worker:
        return Worker(self._trainer, done("here"))

    def share(self, value: Any) -> Any:
        return value

    def ask(self, worker: Worker, method: str, *given: Any) -> Future[Any]:
        return done(getattr(worker.handle, method)(*given))

    def sums(self, workers: Sequence[Worker]) -> Sequence[Future[Any]]:
        return [self.ask(worker, "partial") for worker in workers]

    def result(self, asked: Future[Any]) -> Any:
        return asked.result()

    def end(self, _worker: Worker) -> None:
        """Do nothing: it ends with the test."""

    def close(self) -> None:
        """Do nothing: nothing is shared."""


def done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def test_samples_are_copied_there_once_and_the_ledger_is_that_of_the_engine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lots, "_LARGEST_LOT", 2)
    what = prepared(small(devices={"count": 7}, rounds={"per_stage": ROUNDS}))
    alone = learn(LightEngine, what, tmp_path / "alone")
    monkeypatch.setattr(fleet, "_pool", PoolHere)
    monkeypatch.setattr(training, "torch_device", lambda _asked: DEVICE)
    monkeypatch.setattr(memory, "_known", {})
    with FakeAccelerator() as fake:
        together = learn(LightEngine, with_workers(what, 1), tmp_path / "together")
    assert_same(alone, together)
    assert len(together.records[0].rounds) == ROUNDS
    assert fake.seen.to_device[UPLOAD] == 1
