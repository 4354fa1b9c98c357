"""A network on features in the engine `mqtt`: agents compute the features by themselves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.interface import Engine
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import StageRecord
from tests.simulator.rounds.small import Watching, on_features, prepared

pytestmark = [pytest.mark.torch, pytest.mark.broker]


def learn_all(engine: Engine, stages: tuple[StagePlan, ...]) -> list[StageRecord]:
    with closing(engine):
        return [engine.learn(stage) for stage in stages]


@pytest.mark.nightly
def test_programs_train_on_features_to_the_same_weights_as_a_fleet_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    devices = {"count": 3, "partition": {"rule": "iid"}, "exemplars": "features"}
    fleet = prepared(on_features("fedhaf", devices=devices, rounds={"per_stage": 2}))
    stages = fleet.plan.stages
    programs = learn_all(MqttEngine(fleet, tmp_path / "programs", Watching()), stages)
    memory = learn_all(InProcessEngine(fleet, tmp_path / "memory", Watching()), stages)
    assert [record.head for record in programs] == [record.head for record in memory]
    assert [record.aggregate for record in programs] == [record.aggregate for record in memory]
    assert all(device.stored_samples > 0 for device in programs[-1].devices.values())
