"""A fleet in one process trains what the method's sides give by hand, however it is computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.joint.engine import JointEngine
from fleetledger.simulator.plan.fleet_plan import DeviceStage
from tests.simulator.rounds.small import (
    Watching,
    final_weights,
    learn,
    prepared,
    rounds_by_hand,
    small,
)

pytestmark = pytest.mark.torch


def test_every_round_comes_to_the_digests_of_both_sides_called_by_hand(tmp_path: Path) -> None:
    compared = rounds_by_hand(prepared(small(rounds={"participation": 0.6})), tmp_path)
    assert len(compared) == 6
    for fleet, hand in compared:
        assert fleet == hand
        assert len(fleet.counted) == 2


def test_the_record_tells_of_every_round(tmp_path: Path) -> None:
    what = prepared(small(evaluation={"every_rounds": 2}))
    records, ledger = learn(what, tmp_path)
    averaged = [body for body in ledger if isinstance(body, WeightsAveraged)]
    for record, means in zip(records, (averaged[:3], averaged[3:]), strict=True):
        assert [item.number for item in record.rounds] == [1, 2, 3]
        assert [(item.asked, item.counted) for item in record.rounds] == [(3, 3)] * 3
        assert [item.client_drift for item in record.rounds] == [m.client_drift for m in means]
        assert [item.accuracy is None for item in record.rounds] == [True, False, False]
        assert all(item.loss is not None and item.loss > 0 for item in record.rounds)
        assert (record.aggregate, record.head) == (means[-1].aggregate, means[-1].weights.digest)
        assert record.contributions == 3
        assert {device.counted_samples for device in record.devices.values()} == {8}
        assert all(device.bytes_up > 0 for device in record.devices.values())


def test_a_round_has_the_steps_of_its_answers_and_their_loss_weighted_by_samples(
    tmp_path: Path,
) -> None:
    partition = {"rule": "dirichlet", "beta": 0.3, "least_images": 2}
    what = prepared(small(devices={"count": 3, "partition": partition}, rounds={"per_stage": 1}))
    (record, *_), ledger = learn(what, tmp_path)
    told = [b.part.round for b in ledger if isinstance(b, ContributionAccepted)][:3]
    samples = [answer.samples for answer in told if answer is not None]
    losses = [answer.loss for answer in told if answer is not None]
    assert len(set(samples)) > 1
    assert record.rounds[0].loss == pytest.approx(np.average(losses, weights=samples))
    assert record.rounds[0].steps == sum(answer.steps for answer in told if answer is not None)
    seconds = sum(answer.seconds for answer in told if answer is not None)
    assert record.rounds[0].training_seconds == pytest.approx(seconds)


def test_loop_and_stack_train_nearly_the_same_network(tmp_path: Path) -> None:
    found = {
        kind: final_weights(
            prepared(small(engine={"training": kind}, rounds={"per_stage": 2})), tmp_path / kind
        )
        for kind in ("loop", "stack")
    }
    for name, array in found["loop"].items():
        np.testing.assert_allclose(found["stack"][name], array, atol=1e-4)


def test_agents_that_hold_the_same_train_what_one_machine_trains(tmp_path: Path) -> None:
    """Whole batches and one epoch: every agent takes the same steps, in its own order of sums."""
    settings = {"batch": 64}
    fleet = prepared(small(method={"settings": settings}))
    stages = []
    for stage in fleet.plan.stages:
        whole = np.sort(np.concatenate([met.indices for met in stage.devices.values()]))
        same = {name: DeviceStage(whole) for name in stage.devices}
        stages.append(replace(stage, devices=same))
    plan = replace(fleet.plan, stages=(stages[0],))
    weights = final_weights(replace(fleet, plan=plan), tmp_path / "fleet")
    central = prepared(small(method={"name": "joint", "settings": settings}), plan)
    engine = JointEngine(central, tmp_path / "joint", Watching())
    engine.learn(stages[0])
    point = engine._kept.newest(1)
    assert point is not None
    _, arrays, names = engine._training.network(point.weights)
    assert names == ("0", "1")
    for name, array in arrays.items():
        np.testing.assert_allclose(weights[name], array, atol=1e-5)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    what = prepared(small(rounds={"per_stage": 1}))
    one, two = (learn(what, tmp_path / name)[0] for name in ("one", "two"))
    name = DeviceId("device-1")
    for before, after in zip(one, two, strict=True):
        assert (before.aggregate, before.head) == (after.aggregate, after.head)
        assert before.devices[name].bytes_up == after.devices[name].bytes_up
        assert before.fleet_seconds == after.fleet_seconds
