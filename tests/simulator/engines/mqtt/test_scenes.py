"""Scenes in the engine `mqtt`: agents that read pictures and masks from their folders."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleetledger.device_agent.samples.sources.masks import load_mask_classes
from fleetledger.device_agent.samples.sources.scenes import CLASSES, IMAGES, MASKS
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.interface import Engine, Prepared
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.records import StageRecord
from tests.simulator.rounds.scenes import finding
from tests.simulator.rounds.small import Watching, prepared

pytestmark = [pytest.mark.torch, pytest.mark.broker, pytest.mark.nightly]


@dataclass(frozen=True)
class Ended:
    """A fleet that has learned two tasks and was stopped."""

    prepared: Prepared
    folder: Path
    records: list[StageRecord]


def learn_all(engine: Engine, prepared: Prepared) -> list[StageRecord]:
    with closing(engine):
        return [engine.learn(stage) for stage in prepared.plan.stages]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("scenes") / "seed-1"
    devices = {"count": 2, "groups": {"rule": "redrawn", "new_share": 0.5}}
    fleet = prepared(finding(devices=devices, rounds={"per_stage": 1}))
    return Ended(fleet, folder, learn_all(MqttEngine(fleet, folder, Watching()), fleet))


def test_programs_learn_from_files_what_a_fleet_in_memory_learns(ended: Ended, tmp_path: Path):
    inprocess = learn_all(InProcessEngine(ended.prepared, tmp_path, Watching()), ended.prepared)
    assert [(record.aggregate, record.head) for record in ended.records] == [
        (record.aggregate, record.head) for record in inprocess
    ]
    assert [record.rounds[-1].counted for record in ended.records] == [2, 1]
    for one, two in zip(ended.records, inprocess, strict=True):
        counted = {name: device.counted_samples for name, device in one.devices.items()}
        assert counted == {name: device.counted_samples for name, device in two.devices.items()}


def test_a_device_holds_the_scenes_of_both_tasks_and_knows_their_classes_alone(ended: Ended):
    train, plan = ended.prepared.split.train, ended.prepared.plan
    name = DeviceId("device-2")
    folder = ended.folder / "agents" / name / "data"
    wanted = {
        f"stage-{stage.number:02}-{index:06}.png"
        for stage in plan.stages
        for index in stage.devices[name].indices
    }
    for part in (IMAGES, MASKS):
        assert {path.name for path in (folder / part).iterdir()} == wanted
    shown = {label for stage in plan.stages for label in stage.classes}
    names = load_mask_classes(folder / CLASSES).names
    assert names.items() <= {label + 1: train.class_names[label] for label in shown}.items()
