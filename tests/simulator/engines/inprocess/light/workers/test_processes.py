"""Workers beside the engine train what it would have trained, wherever each device ends up."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.simulator.engines.inprocess.light import round as light_round
from fleetledger.simulator.engines.inprocess.light.batches import Done
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.inprocess.light.holdings import HeldSamples
from fleetledger.simulator.engines.inprocess.light.workers import lot_trainer, lots, processes
from fleetledger.simulator.engines.inprocess.light.workers.lots import (
    AnsweredByWorkers,
    LotDealer,
    LotMember,
    Worker,
)
from fleetledger.simulator.engines.inprocess.light.workers.processes import ProcessPool
from fleetledger.simulator.errors import EngineError
from tests.simulator.engines.inprocess.light.both import learn, means
from tests.simulator.engines.inprocess.light.workers.small import (
    NOISE_OF_DEVICES,
    REMEMBERING_HALVED,
    alone_and_together,
    assert_same,
    waited_for,
    with_workers,
)
from tests.simulator.engines.inprocess.small import changed
from tests.simulator.engines.mqtt.small import Quiet
from tests.simulator.rounds.small import distilling, on_features, prepared, small

pytestmark = pytest.mark.torch

Lots = list[Sequence[LotMember]]


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork workers off a process that has torch already: each would take seconds to import it."""
    multiprocessing.set_forkserver_preload([lot_trainer.__name__])
    monkeypatch.setattr(processes, "_START_METHOD", "forkserver")


@pytest.fixture
def spawned(forked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start workers as a run does."""
    monkeypatch.setattr(processes, "_START_METHOD", "spawn")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Lots:
    """Note lots that are given to workers; all lots have one device, so that everybody works."""
    noted: Lots = []
    ask = ProcessPool.ask

    def seen(self: ProcessPool, worker: Worker, method: str, *given: Any) -> Any:
        if method == "train":
            noted.extend(given)
        return ask(self, worker, method, *given)

    monkeypatch.setattr(ProcessPool, "ask", seen)
    monkeypatch.setattr(lots, "_LARGEST_LOT", 1)
    monkeypatch.setattr(lots, "_LOTS_AT_ONCE", 1)
    return noted


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(REMEMBERING_HALVED, id="exemplars, own models, half the bytes"),
        pytest.param({"preset": "fed-ewc"}, id="two phases"),
        pytest.param(NOISE_OF_DEVICES, id="noise of devices"),
        pytest.param(
            {"privacy": {"clip": 0.5, "noise": 0.3}},
            id="noise of the coordinator",
            marks=pytest.mark.nightly,  # drawn where nothing is trained; test_both_gears.py by day
        ),
    ],
)
def test_they_train_as_the_engine_alone_does(
    settings: dict[str, Any], tmp_path: Path, given: Lots
) -> None:
    method, devices = {"settings": settings}, {"count": 7}
    what = prepared(small(method=method, devices=devices, rounds={"per_stage": 2}))
    assert_same(*alone_and_together(what, tmp_path, 2))
    assert len({member.device for lot in given for member in lot}) > 2


@pytest.mark.parametrize(
    "scenario",
    [
        lambda: distilling(rounds={"per_stage": 1}),
        lambda: on_features("fedhaf", rounds={"per_stage": 1}),
    ],
    ids=["images and logits are shared", "features of a frozen network"],
)
def test_what_differs_by_phase_and_by_input_comes_out_the_same(
    scenario: Callable[[], Any], tmp_path: Path, given: Lots
) -> None:
    assert_same(*alone_and_together(prepared(scenario()), tmp_path))
    assert given


def test_devices_without_data_or_numbers_decline(tmp_path: Path) -> None:
    what = prepared(small(devices={"count": 4}, rounds={"per_stage": 1}))
    empty = {"indices": np.empty(0, np.int64)}
    plan = changed(what.plan, 1, device_2=empty, device_3={"online": False})
    assert_same(*alone_and_together(replace(what, plan=plan), tmp_path / "empty"))
    diverging = prepared(small(method={"settings": {"rate": 1e30}}, rounds={"per_stage": 1}))
    with pytest.raises(EngineError, match=r"stage 1 asks nothing more: .* holds .*, more than 512"):
        learn(waited_for, with_workers(diverging, 1), tmp_path / "diverging")


def test_inputs_lie_in_memory_that_all_see_unless_they_are_too_large(
    tmp_path: Path, given: Lots, spawned: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = prepared(small(rounds={"per_stage": 1}))
    alone, _ = alone_and_together(what, tmp_path / "shared")
    assert given
    assert all(isinstance(one.samples, HeldSamples) for lot in given for one in lot)
    given.clear()
    monkeypatch.setattr("fleetledger.simulator.engines.inprocess.light.holdings._SHARED_BYTES", 1)
    assert_same(alone, learn(waited_for, with_workers(what, 1), tmp_path / "sent"))
    assert given
    assert not any(isinstance(one.samples, HeldSamples) for lot in given for one in lot)


@pytest.mark.parametrize(("devices", "at_once"), [(6, 1), (30, 2)])
def test_of_long_trainings_few_lie_ready_and_at_the_end_none(
    devices: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = []
    deal = AnsweredByWorkers._deal

    def noted(self: AnsweredByWorkers) -> None:
        deal(self)
        most.append(max(map(self._open, self._dealer.workers)))

    monkeypatch.setattr(AnsweredByWorkers, "_deal", noted)
    monkeypatch.setattr(lots, "_AHEAD_SECONDS", 0.0)
    fleet = small(data={"per_class": 20}, devices={"count": devices}, rounds={"per_stage": 1})
    learn(waited_for, with_workers(prepared(fleet)), tmp_path)
    assert max(most) == at_once


REMEMBERING = {"method": {"settings": {"preset": "flwf-2t", "exemplars": 12}}}


@pytest.mark.parametrize("lot", [1, pytest.param(12, marks=pytest.mark.nightly)])
def test_the_lots_of_a_worker_that_is_killed_are_dealt_again_and_give_the_same(
    lot: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = prepared(small(**REMEMBERING, devices={"count": 9}))
    whole = learn(LightEngine, what, tmp_path / "whole")
    told = 0
    handed_on = AnsweredByWorkers._next

    def killed(self: AnsweredByWorkers) -> Sequence[Done]:
        nonlocal told
        told += 1
        if told == lot:
            for worker in self._dealer.workers:
                end(worker)
        return handed_on(self)

    monkeypatch.setattr(AnsweredByWorkers, "_next", killed)
    monkeypatch.setattr(lots, "_LARGEST_LOT", 1)
    assert_same(whole, learn(waited_for, with_workers(what), tmp_path / "killed"))
    assert told > lot


def end(worker: Worker) -> None:
    """End a worker's process; whoever started it reaps it, and would wait for ever if we did."""
    process = psutil.Process(worker.handle.process.pid)
    process.kill()
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


def test_a_worker_that_ends_after_its_answers_were_told_and_before_its_sum_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Lots
) -> None:
    what = prepared(small(**REMEMBERING, devices={"count": 5}, rounds={"per_stage": 1}))
    whole = learn(LightEngine, what, tmp_path / "whole")
    total, lots = AnsweredByWorkers.total, []

    def killed(self: AnsweredByWorkers) -> Any:
        lots.append(sum(map(len, self._given.values())))
        for worker in self._given:
            end(worker)
        return total(self)

    monkeypatch.setattr(AnsweredByWorkers, "total", killed)
    assert_same(whole, learn(waited_for, with_workers(what), tmp_path / "killed"))
    assert sum(lots) > 0
    assert len(given) >= 2 * sum(lots)


def test_another_answer_of_a_worker_that_takes_ones_place_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Lots
) -> None:
    what = prepared(small(devices={"count": 5}, rounds={"per_stage": 1}))
    total = AnsweredByWorkers.total

    def killed(self: AnsweredByWorkers) -> Any:
        for worker, share in self._given.items():
            end(worker)
            for lot in share:  # as if the one that has ended had said something else
                lot.told = [one._replace(memory=one.payload) for one in lot.told or ()]
        return total(self)

    monkeypatch.setattr(AnsweredByWorkers, "total", killed)
    with pytest.raises(EngineError, match=r"device-\d: another worker trained it to another"):
        learn(waited_for, with_workers(what), tmp_path)
    assert given


@pytest.mark.nightly
def test_lots_that_end_every_worker_end_the_run_which_goes_on_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Lots
) -> None:
    what = prepared(small(**REMEMBERING, devices={"count": 5}))
    whole = learn(LightEngine, what, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(processes, "_call", _end_when_training)
        with pytest.raises(EngineError, match=r"3 workers ended while they trained device-\d"):
            learn(waited_for, with_workers(what, 1), tmp_path / "cut")
    resumed = learn(waited_for, with_workers(what), tmp_path / "cut")
    assert means(resumed) == means(whole)
    assert resumed.models == whole.models


def _end_when_training(method: str, *_given: object) -> None:
    if method == "train":
        os.kill(os.getpid(), signal.SIGKILL)


def test_whoever_stops_a_run_does_not_wait_for_what_is_being_trained(tmp_path: Path) -> None:
    engine = waited_for(with_workers(prepared(small()), 1), tmp_path, Quiet())
    dealer = dealer_of(engine)
    (worker,) = dealer.workers
    process = psutil.Process(worker.handle.process.pid)
    process.suspend()  # it will not do anything any more
    asked = dealer.pool.ask(worker, "ready")
    engine.close()
    assert not process.is_running()
    assert asked.done()


def dealer_of(engine: LightEngine) -> LotDealer:
    training = engine._fleet._training
    assert training is not None
    assert training.dealer is not None
    return training.dealer


def test_what_a_device_half_refuses_there_ends_the_run_in_its_words(tmp_path: Path) -> None:
    what = prepared(small(**REMEMBERING, devices={"count": 9}))

    def spoil(_: int) -> None:
        for path in tmp_path.glob("agents/*/*"):
            path.write_bytes(b"no memory")

    with pytest.raises(EngineError, match=r"engine\.store: blob .*"):
        learn(waited_for, with_workers(what, 1), tmp_path, spoil)


def test_everybody_computes_on_one_thread_until_the_run_is_over(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        engine = LightEngine(with_workers(prepared(small()), 1), tmp_path, Quiet())
        assert torch.get_num_threads() == 1
        engine.close()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_who_is_not_there_yet_is_not_waited_for(
    tmp_path: Path, given: Lots, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = ProcessPool.start
    never = Future[str]()
    monkeypatch.setattr(ProcessPool, "start", lambda pool: replace(start(pool), started=never))
    learn(LightEngine, with_workers(prepared(small(rounds={"per_stage": 1})), 1), tmp_path)
    assert not given


def test_a_gpu_needs_no_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "torch_device", lambda _: "cuda")
    with pytest.raises(EngineError, match=r"engine\.workers: not beside a GPU"):
        LightEngine(with_workers(prepared(small())), tmp_path, Quiet())


def test_the_engine_need_not_wait_for_the_disk_until_a_round_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light_round, "LEAST_BESIDE_WORKERS", 1)
    alone, together = alone_and_together(prepared(small(devices={"count": 5})), tmp_path)
    assert_same(alone, together)
    commits = [checkpoints(tmp_path / name) for name in ("alone", "together")]
    assert commits[1] >= commits[0] + 6  # of six rounds


def checkpoints(run: Path) -> int:
    """Return how often something was committed."""
    with LedgerReader.open_read_only(ledger_path(run / "coordinator")) as ledger:
        return int(ledger.db.execute("SELECT COUNT(*) FROM checkpoint").fetchone()[0])
