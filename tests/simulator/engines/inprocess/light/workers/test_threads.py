"""Workers on threads train what the engine alone would have trained, bit for bit."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fleetledger.learning.networks.registry import NETWORKS
from fleetledger.simulator.engines.inprocess.light import fleet
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.inprocess.light.workers import lots
from fleetledger.simulator.engines.inprocess.light.workers.lot_trainer import LotTrainer
from fleetledger.simulator.engines.inprocess.light.workers.threads import (
    ThreadPool,
    threads_run_side_by_side,
)
from fleetledger.simulator.errors import EngineError
from tests.simulator.engines.inprocess.light.both import learn
from tests.simulator.engines.inprocess.light.workers.small import (
    NOISE_OF_DEVICES,
    REMEMBERING_HALVED,
    alone_and_together,
    assert_same,
    waited_for,
    with_workers,
)
from tests.simulator.engines.mqtt.small import Quiet
from tests.simulator.rounds.small import distilling, on_features, prepared, small

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def trained(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """Take threads whatever this Python is, change between them often, and note which train."""
    noted: set[int] = set()
    train = LotTrainer.train

    def seen(self: LotTrainer, lot: Any) -> Any:
        assert torch.get_num_threads() == 1
        noted.add(threading.get_ident())
        return train(self, lot)

    monkeypatch.setattr(LotTrainer, "train", seen)
    monkeypatch.setattr(fleet, "threads_run_side_by_side", lambda: True)
    monkeypatch.setattr(lots, "_LARGEST_LOT", 1)
    monkeypatch.setattr(lots, "_LOTS_AT_ONCE", 1)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield noted
    sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    "settings",
    [REMEMBERING_HALVED, NOISE_OF_DEVICES],
    ids=["exemplars, own models, half the bytes", "noise of devices"],
)
def test_they_train_as_the_engine_alone_does(
    settings: dict[str, Any], tmp_path: Path, trained: set[int]
) -> None:
    what = prepared(
        small(method={"settings": settings}, devices={"count": 7}, rounds={"per_stage": 2})
    )
    assert_same(*alone_and_together(what, tmp_path, 2))
    assert len(trained - {threading.get_ident()}) == 2


@pytest.mark.parametrize(
    "scenario",
    [
        lambda: distilling(rounds={"per_stage": 1}),
        lambda: on_features("fedhaf", rounds={"per_stage": 1}),
    ],
    ids=["images and logits are shared", "features of a frozen network"],
)
def test_what_differs_by_phase_and_by_input_comes_out_the_same(
    scenario: Any, tmp_path: Path, trained: set[int]
) -> None:
    assert_same(*alone_and_together(prepared(scenario()), tmp_path))
    assert trained


def dropping(shape: tuple[int, ...]) -> nn.Module:
    """Return a module that draws by chance in training, and has buffers that follow it."""
    inputs = 1
    for axis in shape:
        inputs *= axis
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3)
    )


def test_a_module_that_draws_draws_the_same_on_every_thread(
    tmp_path: Path, trained: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NETWORKS, "_added", dict(NETWORKS._added))
    NETWORKS.add("test_threads_dropping", dropping)
    method = {"settings": {"network": "test_threads_dropping"}}
    what = prepared(small(method=method, devices={"count": 6}, rounds={"per_stage": 2}))
    assert_same(*alone_and_together(what, tmp_path, 2))
    assert trained


def test_an_error_of_a_thread_is_the_engines(tmp_path: Path) -> None:
    diverging = prepared(small(method={"settings": {"rate": 1e30}}, rounds={"per_stage": 1}))
    with pytest.raises(EngineError, match=r"stage 1 asks nothing more: .* holds .*, more than 512"):
        learn(waited_for, with_workers(diverging, 1), tmp_path)


def test_threads_end_with_the_engine(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    engine = LightEngine(with_workers(prepared(small()), 2), tmp_path, Quiet())
    engine.wait_for_workers()
    assert len(set(threading.enumerate()) - before) >= 2
    engine.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("worker")]


def test_threads_are_taken_where_they_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    assert not threads_run_side_by_side()
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert threads_run_side_by_side()
    monkeypatch.delattr(sys, "_is_gil_enabled")
    assert not threads_run_side_by_side()
    settings = with_workers(prepared(small()), 2).scenario.engine
    place: Any = type("Place", (), {"trainers": type("Trainers", (), {"device": "cpu"})})
    assert isinstance(fleet._pool(place, settings), ThreadPool)
