"""Workers on Ray train what the engine would have trained, on one machine and on several."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from fleetledger.simulator.engines.inprocess.light.batches import Done
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.inprocess.light.workers import lots
from fleetledger.simulator.engines.inprocess.light.workers.lots import AnsweredByWorkers, Worker
from fleetledger.simulator.engines.inprocess.light.workers.ray_cluster import RayPool
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.errors import EngineError
from tests.simulator.engines.inprocess.light.both import Learned, learn
from tests.simulator.engines.inprocess.light.workers.small import (
    assert_same,
    waited_for,
    with_workers,
)
from tests.simulator.engines.mqtt.small import Quiet
from tests.simulator.rounds.small import distilling, on_features, prepared, small, with_proxy

pytestmark = pytest.mark.torch
ray = pytest.importorskip("ray", reason="needs the extra 'ray'")

REMEMBERING = {"method": {"settings": {"preset": "flwf-2t", "exemplars": 12}}}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Start one cluster for all tests of this file: it takes some seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture(autouse=True)
def lots_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everybody work, however few devices there are."""
    monkeypatch.setattr(lots, "_LARGEST_LOT", 1)
    monkeypatch.setattr(lots, "_LOTS_AT_ONCE", 1)


@pytest.fixture(scope="module")
def what() -> Prepared:
    return prepared(small(**REMEMBERING, devices={"count": 7}, rounds={"per_stage": 2}))


@pytest.fixture(scope="module")
def alone(what: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """What one process makes of it, beside another that is not waited for: all on one thread."""
    return learn(LightEngine, with_workers(what, 1), tmp_path_factory.mktemp("alone"))


def on_ray(what: Prepared, number: int, **engine: Any) -> Prepared:
    return with_workers(what, number, kind="ray", **engine)


@pytest.mark.parametrize(
    "number", [2, *(pytest.param(number, marks=pytest.mark.nightly) for number in (1, 3))]
)
def test_however_many_they_are_entries_sums_and_models_are_equal(
    number: int, what: Prepared, alone: Learned, tmp_path: Path
) -> None:
    assert_same(alone, learn(waited_for, on_ray(what, number), tmp_path))


@pytest.mark.nightly
def test_devices_memories_lie_in_the_store_that_is_given(
    what: Prepared, alone: Learned, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    assert_same(alone, learn(waited_for, on_ray(what, 2, store=store.as_uri()), tmp_path / "run"))
    assert len(list(store.glob("??/*"))) == 7
    assert not (tmp_path / "run/agents").exists()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "scenario",
    [
        lambda: distilling(rounds={"per_stage": 1}),
        lambda: on_features("fedhaf", rounds={"per_stage": 1}),
        with_proxy,
    ],
    ids=["shared images and logits", "features of a frozen network", "gradients for a proxy"],
)
def test_other_methods_too(scenario: Any, tmp_path: Path) -> None:
    what = prepared(scenario())
    whole = learn(LightEngine, with_workers(what, 1), tmp_path / "alone")
    assert_same(whole, learn(waited_for, on_ray(what, 2), tmp_path / "together"))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0])
def test_workers_that_are_killed_at_random_change_nothing(
    seed: int, what: Prepared, alone: Learned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert killed_at_random(seed, what, alone, tmp_path, monkeypatch) > 0


def killed_at_random(
    seed: int, what: Prepared, alone: Learned, folder: Path, patch: pytest.MonkeyPatch
) -> int:
    """Compare a run in which every fourth lot or so ends a worker; return how many ended."""
    chance, killed = random.Random(seed), 0
    handed_on, total = AnsweredByWorkers._next, AnsweredByWorkers.total

    def end_one(self: AnsweredByWorkers) -> None:
        nonlocal killed
        worker = chance.choice(self._dealer.workers)
        pid = ray.get(worker.handle.__ray_call__.remote(_pid))
        os.kill(pid, signal.SIGKILL)
        killed += 1

    def next_lot(self: AnsweredByWorkers) -> Sequence[Done]:
        if killed < 2 and chance.random() < 0.25:
            end_one(self)
        return handed_on(self)

    def summed(self: AnsweredByWorkers) -> Any:
        if not killed or chance.random() < 0.25:
            end_one(self)
        return total(self)

    patch.setattr(AnsweredByWorkers, "_next", next_lot)
    patch.setattr(AnsweredByWorkers, "total", summed)
    patch.setattr(lots, "_MOST_LOSSES", 20)
    assert_same(alone, learn(waited_for, on_ray(what, 2), folder))
    return killed


def _pid(_trainer: object) -> int:
    return os.getpid()


@pytest.mark.nightly  # on processes of this machine by day
def test_what_a_device_half_refuses_there_ends_the_run_in_its_words(
    what: Prepared, tmp_path: Path
) -> None:
    def spoil(_: int) -> None:
        for path in tmp_path.glob("agents/*/*"):
            path.write_bytes(b"no memory")

    with pytest.raises(EngineError, match=r"^engine\.store: blob [0-9a-f]{64}"):
        learn(waited_for, on_ray(what, 1), tmp_path, spoil)


def test_more_workers_than_the_cluster_has_room_for_are_refused(
    what: Prepared, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match=r"engine\.workers: 5 of 1 CPU each on a cluster with 3"):
        LightEngine(on_ray(what, 5), tmp_path / "cpu", Quiet())
    with pytest.raises(EngineError, match=r"engine\.workers: 1 of 1 GPU each on a cluster with 0"):
        LightEngine(on_ray(what, 1, worker_gpus=1), tmp_path / "gpu", Quiet())


def test_workers_on_several_machines_need_a_store_that_all_reach(
    what: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = iter(("one", "two"))

    def started(_pool: RayPool) -> Worker:
        there: Future[str] = Future()
        there.set_result(next(machines))
        return Worker(None, there)

    monkeypatch.setattr(RayPool, "start", started)  # a real one takes 30 s here
    monkeypatch.setattr(RayPool, "end", lambda *_: None)
    with pytest.raises(EngineError, match=r"engine\.store: not given, .* on 2 machines"):
        LightEngine(on_ray(what, 2), tmp_path, Quiet())
