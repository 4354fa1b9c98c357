"""Agents that are told what to do leave what agents leave that act by themselves."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.light import answer_hasher, batches
from fleetledger.simulator.engines.inprocess.light.answer_hasher import HashedAnswer, hashed
from tests.simulator.engines.inprocess.light.both import Learned, both, means, said
from tests.simulator.engines.inprocess.light.workers.small import REMEMBERING_HALVED
from tests.simulator.engines.inprocess.small import changed
from tests.simulator.rounds.small import prepared, small

pytestmark = pytest.mark.torch

THIRD = DeviceId("device-3")


TIMES = {"seconds": 0.0, "training_seconds": 0.0, "fleet_seconds": 0.0}


def assert_same(timed: Learned, light: Learned) -> None:
    assert said(light.ledger) == said(timed.ledger)
    assert means(light) == means(timed)
    assert len(means(timed)) > 0
    assert light.models == timed.models
    for one, two in zip(timed.records, light.records, strict=True):
        assert (one.aggregate, one.head, one.version) == (two.aggregate, two.head, two.version)
        assert one.contributions == two.contributions
        assert [r.model_copy(update=TIMES) for r in two.rounds] == [
            r.model_copy(update={**TIMES, "loss": pytest.approx(r.loss)}) for r in one.rounds
        ]
        for name, device in one.devices.items():
            other = two.devices[name]
            assert other.counted_samples == device.counted_samples
            assert other.stored_samples == device.stored_samples
            assert other.online == device.online


def test_everybody_takes_part(tmp_path: Path) -> None:
    timed, light = both(prepared(small()), tmp_path)
    assert_same(timed, light)
    for record in timed.records:
        assert min(record.seconds[phase] for phase in ("training", "intake", "ledger")) > 0
    for record in light.records:
        phases = ("training", "sums", "hashing", "solve", "export", "ledger", "fleet")
        assert min(record.seconds[phase] for phase in phases) > 0
        within = sum(s for name, s in record.seconds.items() if name not in {"total", "evaluation"})
        assert within == pytest.approx(record.seconds["total"])


@pytest.mark.parametrize("where", ["coordinator", "local"])
def test_noise_is_the_same(where: str, tmp_path: Path) -> None:
    privacy = {"clip": 0.5, "noise": 0.3, "where": where}
    timed, light = both(prepared(small(method={"settings": {"privacy": privacy}})), tmp_path)
    assert_same(timed, light)
    seeds = [body.noise_seed for body in light.bodies(WeightsAveraged)]
    assert len(set(seeds)) == (len(seeds) if where == "coordinator" else 1)


def test_large_answers_are_hashed_and_added_beside_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set()
    summed = batches.Adding._sum

    def adding(self: batches.Adding, answers: Any) -> None:
        threads.add(threading.current_thread().name.partition("_")[0])
        summed(self, answers)

    def noted(body: bytes) -> HashedAnswer:
        threads.add(threading.current_thread().name.partition("_")[0])
        return hashed(body)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(answer_hasher, "LARGE_BYTES", 0)
    monkeypatch.setattr(batches, "LARGE_BYTES", 0)
    monkeypatch.setattr(batches.Adding, "_sum", adding)
    monkeypatch.setattr(answer_hasher, "hashed", noted)
    monkeypatch.setattr(batches, "_ANSWERS_AT_ONCE", 2)
    assert_same(*both(prepared(small()), tmp_path))
    assert threads >= {"hashing", "summing"}


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "cosine", **REMEMBERING_HALVED},
        {"preset": "fed-ewc"},
    ],
    ids=["exemplars, own models, half the bytes", "two phases"],
)
def test_methods_that_remember_or_do_more(settings: dict[str, Any], tmp_path: Path) -> None:
    what = prepared(small(method={"settings": settings}, rounds={"per_stage": 2}))
    assert_same(*both(what, tmp_path))


def test_a_cohort_is_drawn_and_devices_hold_unequal_shares(tmp_path: Path) -> None:
    partition = {"rule": "dirichlet", "beta": 0.3, "least_images": 0}
    what = prepared(
        small(
            devices={"count": 6, "partition": partition},
            rounds={"per_stage": 3, "cohort": 4},
        )
    )
    timed, light = both(what, tmp_path)
    assert_same(timed, light)
    assert {len(body.cohort) for body in light.bodies(RoundOpened)} == {4}


def test_devices_drop_out_join_late_leave_and_have_nothing(tmp_path: Path) -> None:
    what = prepared(small(devices={"count": 5}, rounds={"per_stage": 2}))
    plan = changed(what.plan, 1, device_2={"online": False}, device_3=None)
    plan = changed(plan, 2, device_4=None, device_5={"indices": np.empty(0, np.int64)})
    plan = changed(plan, 1, device_5={"indices": np.empty(0, np.int64)})
    timed, light = both(replace(what, plan=plan), tmp_path)
    assert_same(timed, light)
    nothing = [entry.device for entry, body in light.ledger if entry.kind == "nothing.reported"]
    assert nothing == [DeviceId("device-5")] * 4
    opened = light.bodies(RoundOpened)
    assert [len(body.cohort) for body in opened] == [3, 3, 4, 4]


def test_a_stack_trains_as_a_stack_of_full_agents_does(tmp_path: Path) -> None:
    assert_same(*both(prepared(small(engine={"training": "stack"})), tmp_path))


def test_networks_are_trained_on_features_too(tmp_path: Path) -> None:
    """FedHAF: two works in a row, exemplars, an old model, features of a frozen network."""
    method = {
        "name": "fedhaf",
        "settings": {"hidden": 16, "width": 8, "head_epochs": 2, "adapter_epochs": 2},
    }
    scenario = small(method=method, rounds={"per_stage": 2})
    plain = {"name": "fedhaf", "settings": method["settings"]}
    content = scenario.model_dump(mode="json") | {"method": plain}
    assert_same(*both(prepared(type(scenario).model_validate(content)), tmp_path))
