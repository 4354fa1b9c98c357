"""Programs beside the engine train what it would have trained, wherever each device ends up."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coordinator.ledger.reader import LedgerReader
from coordinator.paths import ledger_path
from schemas.values import DeviceId
from simulator.engines.inprocess.light import round as light_round
from simulator.engines.inprocess.light import workers
from simulator.engines.inprocess.light.batches import Done
from simulator.engines.inprocess.light.engine import LightEngine
from simulator.engines.inprocess.light.programs import Program
from simulator.engines.inprocess.light.worker_messages import AskSum, encode_work
from simulator.engines.inprocess.light.workers import AnsweredByWorkers, DeviceBatch, WorkerHandle
from simulator.engines.interface import Prepared
from simulator.errors import EngineError
from simulator.scenario.model import Scenario
from tests.simulator.engines.inprocess.light.both import Learned, learn, means, said
from tests.simulator.engines.inprocess.small import changed
from tests.simulator.engines.mqtt.small import Quiet
from tests.simulator.rounds.small import distilling, on_features, prepared, small

pytestmark = pytest.mark.torch

Beside = list[tuple[DeviceBatch, Sequence[DeviceId]]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Beside:
    """Note lots that are given to programs; all lots have one device, so that everybody works."""
    noted: Beside = []
    lot = WorkerHandle.lot

    def seen(self: WorkerHandle, devices: Sequence[DeviceId], *more: Any) -> DeviceBatch:
        noted.append((lot(self, devices, *more), devices))
        return noted[-1][0]

    monkeypatch.setattr(WorkerHandle, "lot", seen)
    monkeypatch.setattr(workers, "_LARGEST_LOT", 1)
    monkeypatch.setattr(workers, "_LOTS_AT_ONCE", 1)
    return noted


def with_workers(what: Prepared, number: int = 2) -> Prepared:
    engine = {**what.scenario.engine.model_dump(), "agents": "light", "workers": number}
    content = what.scenario.model_dump(mode="json") | {"engine": engine}
    return replace(what, scenario=Scenario.model_validate(content))


def waited_for(*given: Any) -> LightEngine:
    """Return the engine when its workers are there: small runs are over before."""
    engine = LightEngine(*given)
    engine.wait_for_workers()
    return engine


def alone_and_together(what: Prepared, folder: Path, programs: int = 1) -> tuple[Learned, Learned]:
    alone = learn(LightEngine, what, folder / "alone")
    return alone, learn(waited_for, with_workers(what, programs), folder / "together")


def assert_same(alone: Learned, together: Learned) -> None:
    """Entries lie in the same order, too: nothing tells that there was a pool."""
    assert said(together.ledger) == said(alone.ledger)
    devices = [[entry.device for entry, _ in one.ledger] for one in (alone, together)]
    assert devices[0] == devices[1]
    assert means(together) == means(alone)
    assert len(means(alone)) > 0
    assert together.models == alone.models


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"preset": "fedavg-exemplars", "exemplars": 12},
        {"preset": "flwf-2t"},
        {"preset": "fed-ewc"},
        {"averaging": "plain", "upload": "int16"},
    ],
    ids=["weights", "exemplars", "own models", "two phases", "half the bytes"],
)
def test_programs_train_as_the_engine_alone_does(
    settings: dict[str, Any], tmp_path: Path, given: Beside
) -> None:
    method, devices = {"settings": settings}, {"count": 7}
    what = prepared(small(method=method, devices=devices, rounds={"per_stage": 2}))
    assert_same(*alone_and_together(what, tmp_path, 2))
    trained = {device for _, devices in given for device in devices}
    assert len(trained) > 2


def test_phases_that_share_images_and_logits_are_summed_apart_and_joined(
    tmp_path: Path, given: Beside
) -> None:
    what = prepared(distilling(rounds={"per_stage": 1}))
    assert_same(*alone_and_together(what, tmp_path))
    assert {lot.task.instruction.round.phase for lot, _ in given if lot.task is not None} > {
        "train"
    }


def test_features_of_a_frozen_network_reach_them_too(tmp_path: Path, given: Beside) -> None:
    what = prepared(on_features("fedhaf", rounds={"per_stage": 2}))
    assert_same(*alone_and_together(what, tmp_path))
    (found,) = {lot.data[device].inputs.dtype for lot, (device,) in given if lot.data}  # type: ignore[union-attr]
    assert found == np.float32


def test_devices_without_data_or_numbers_decline(tmp_path: Path) -> None:
    what = prepared(small(devices={"count": 4}, rounds={"per_stage": 1}))
    empty = {"indices": np.empty(0, np.int64)}
    plan = changed(what.plan, 1, device_2=empty, device_3={"online": False})
    assert_same(*alone_and_together(replace(what, plan=plan), tmp_path / "empty"))
    diverging = prepared(small(method={"settings": {"rate": 1e30}}, rounds={"per_stage": 1}))
    with pytest.raises(EngineError, match=r"stage 1 asks nothing more: .* holds .*, more than 512"):
        learn(waited_for, with_workers(diverging, 1), tmp_path / "diverging")


def test_data_are_sent_once_and_again_when_they_have_changed(tmp_path: Path, given: Beside) -> None:
    what = prepared(small(devices={"count": 5}, rounds={"per_stage": 3}))
    learn(waited_for, with_workers(what, 1), tmp_path)
    seen: set[tuple[int, DeviceId]] = set()
    again = 0
    for lot, devices in given:
        sent = {(stage_of(lot, given), device) for device in lot.data}
        assert not sent & seen
        again += len(devices) - len(lot.data)
        seen |= sent
    assert again > 0
    assert {stage for stage, _ in seen} == {1, 2}
    assert sum(lot.forgets for lot, _ in given) == 2


def stage_of(lot: DeviceBatch, given: Beside) -> int:
    """Return the stage of a lot: that of the newest task."""
    tasks = [one.task for one, _ in given[: [one for one, _ in given].index(lot) + 1]]
    return [task for task in tasks if task is not None][-1].instruction.stage


def test_what_is_too_much_to_be_kept_is_sent_every_time(
    tmp_path: Path, given: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_KEPT_BYTES", 0)
    what = prepared(small(rounds={"per_stage": 2}))
    assert_same(*alone_and_together(what, tmp_path))
    assert all(set(lot.data) == set(devices) and not lot.keeps for lot, devices in given)


@pytest.mark.parametrize(("devices", "at_once"), [(6, 1), (30, 2)])
def test_of_long_trainings_few_lie_ready_and_at_the_end_none(
    devices: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = []
    deal = AnsweredByWorkers._deal

    def noted(self: AnsweredByWorkers) -> None:
        deal(self)
        most.append(max(handle.program.works for handle in self._pool.handles))

    monkeypatch.setattr(AnsweredByWorkers, "_deal", noted)
    monkeypatch.setattr(workers, "_AHEAD_SECONDS", 0.0)
    fleet = small(data={"per_class": 20}, devices={"count": devices}, rounds={"per_stage": 1})
    learn(waited_for, with_workers(prepared(fleet)), tmp_path)
    assert max(most) == at_once


def test_a_program_that_is_killed_is_told_of_and_the_run_goes_on_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"preset": "flwf-2t", "exemplars": 12}
    what = prepared(small(method={"settings": settings}, devices={"count": 9}))
    whole = learn(LightEngine, what, tmp_path / "whole")
    rounds = 0
    received = AnsweredByWorkers._next

    def killed(self: AnsweredByWorkers) -> Sequence[Done]:
        nonlocal rounds
        rounds += 1
        if rounds == 12:
            for handle in self._pool.handles:
                handle.program._process.kill()
                handle.program._process.wait()
        return received(self)

    with monkeypatch.context() as patch:
        patch.setattr(AnsweredByWorkers, "_next", killed)
        patch.setattr(workers, "_LARGEST_LOT", 1)
        with pytest.raises(EngineError, match="workers: a program of this run has ended"):
            learn(waited_for, with_workers(what), tmp_path / "cut")
    resumed = learn(waited_for, with_workers(what), tmp_path / "cut")
    assert means(resumed) == means(whole)
    assert resumed.models == whole.models


def test_whoever_stops_a_run_does_not_wait_for_what_is_being_trained(tmp_path: Path) -> None:
    engine = waited_for(with_workers(prepared(small()), 1), tmp_path, Quiet())
    pool = engine._fleet._training.pool
    assert pool is not None
    (handle,) = pool.handles
    os.kill(handle.program._process.pid, signal.SIGSTOP)  # it will not do anything any more
    handle.program.send(encode_work(AskSum()))
    engine.close()
    assert handle.program._process.returncode == -signal.SIGKILL


def test_what_a_device_half_refuses_there_ends_the_run_in_its_words(tmp_path: Path) -> None:
    settings = {"preset": "flwf-2t", "exemplars": 12}
    what = prepared(small(method={"settings": settings}, devices={"count": 9}))

    def spoil(_: int) -> None:
        for path in tmp_path.glob("agents/*/memory-*"):
            path.write_bytes(b"no memory")

    with pytest.raises(EngineError, match=r"^device-\d: .*memory"):
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
    tmp_path: Path, given: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Program, "is_ready", False)
    learn(LightEngine, with_workers(prepared(small(rounds={"per_stage": 1})), 1), tmp_path)
    assert not given


def test_a_gpu_needs_no_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "torch_device", lambda _: "cuda")
    with pytest.raises(EngineError, match=r"engine\.workers: 2 beside a GPU"):
        LightEngine(with_workers(prepared(small())), tmp_path, Quiet())


def test_programs_need_not_wait_for_the_disk_until_a_round_is_over(
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
