"""A worker with an accelerator of its own has the fleet's samples there once for a run.

The worker is in the test's process, and its accelerator the fake one, which computes as the
processor does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest

from benchmarks.kernel_counts.accelerator import DEVICE, FakeAccelerator
from fleetledger.learning.training import memory
from fleetledger.methods.training import Partial
from fleetledger.simulator.engines.inprocess.light import fleet
from fleetledger.simulator.engines.inprocess.light.cohort import CohortResources
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.inprocess.light.holdings import TrainInputs
from fleetledger.simulator.engines.inprocess.light.task import RoundTask
from fleetledger.simulator.engines.inprocess.light.workers import lots
from fleetledger.simulator.engines.inprocess.light.workers.interface import (
    LotMember,
    TrainedLot,
    Worker,
)
from fleetledger.simulator.virtual import training
from tests.simulator.engines.inprocess.light.both import learn
from tests.simulator.engines.inprocess.light.workers.small import assert_same, with_workers
from tests.simulator.rounds.small import prepared, small

pytestmark = pytest.mark.torch

ROUNDS = 3
UPLOAD = "learning/training/resident.py:of"
Result = TypeVar("Result")


class Promised(Future[Result]):
    """What was done when it was asked for."""

    def __init__(self, ask: Callable[[], Result]) -> None:
        super().__init__()
        self.set_result(ask())

    def is_ready(self) -> bool:
        return True


class WorkerHere:
    """One worker, which is all the workers that there are, and shares the engine's process."""

    is_lost = engine_trains = False

    def __init__(self, place: CohortResources, _engine: Any) -> None:
        from fleetledger.simulator.engines.inprocess.light.workers.training import (
            LotTrainer,
            known_methods,
        )

        self._trainer = LotTrainer(place, *known_methods())
        self._inputs: TrainInputs | None = None

    @property
    def everybody(self) -> Sequence[Worker]:
        return [self]

    def is_there(self) -> bool:
        return True

    def wait(self) -> None:
        """Do nothing: it is there."""

    def share(self, inputs: TrainInputs) -> None:
        self._inputs = inputs

    def begin(self, _worker: Worker, task: RoundTask) -> None:
        self._trainer.begin(task, self._inputs)

    def train(self, lot: Sequence[LotMember]) -> Promised[TrainedLot]:
        return Promised(lambda: self._trainer.train(lot))

    def sums(self, workers: Sequence[Worker]) -> Sequence[Promised[Partial]]:
        return [Promised(self._trainer.partial) for _ in workers]

    def replace(self, _worker: Worker) -> Worker:
        raise AssertionError("it is never lost")

    def close(self) -> None:
        """Do nothing: it ends with the test."""


def test_samples_are_copied_there_once_and_the_ledger_is_that_of_the_engine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lots, "_LARGEST_LOT", 2)
    what = prepared(small(devices={"count": 7}, rounds={"per_stage": ROUNDS}))
    alone = learn(LightEngine, what, tmp_path / "alone")
    monkeypatch.setattr(fleet, "_workers", WorkerHere)
    monkeypatch.setattr(training, "torch_device", lambda _asked: DEVICE)
    monkeypatch.setattr(memory, "_known", {})
    with FakeAccelerator() as fake:
        together = learn(LightEngine, with_workers(what, 1), tmp_path / "together")
    assert_same(alone, together)
    assert len(together.records[0].rounds) == ROUNDS
    assert fake.seen.to_device[UPLOAD] == 1
