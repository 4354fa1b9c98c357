"""A real agent and a copy of its home at a real Mosquitto: found, frozen, settled, counted once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.topics.contributions.entries import ContributionWithdrawn
from fleetledger.coordinator.topics.devices.entries import DeviceDoubled
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.device_agent.making import told_texts
from tests.end_to_end.memory_fleet import put_pictures
from tests.end_to_end.process_fleet import ProcessFleet

pytestmark = pytest.mark.broker

CLASSES = ("vertical", "horizontal")
CAMERA, COPY = "camera", "copy"
PREPROCESSING = """\
mode = "L"
size = [4, 4]
mean = [0.0]
deviation = [1.0]
input_name = "image"
"""
SETTINGS = """\
[intake]
replacement_seconds = 20
[method]
name = "stsa"
[method.settings]
map_width = 40
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ProcessFleet]:
    logs = tmp_path / "logs"
    logs.mkdir()
    with (
        MosquittoBroker(tmp_path / "broker", (CAMERA,)) as broker,
        Children(logs) as children,
    ):
        fleet = ProcessFleet(tmp_path, broker, children)
        fleet.set_up_coordinator(SETTINGS)
        described = tmp_path / "pixels.toml"
        described.write_text(PREPROCESSING, encoding="utf-8")
        shape = Preprocessing(
            mode="L", size=(4, 4), mean=(0.0,), deviation=(1.0,), input_name="image"
        )
        (tmp_path / "pixels.onnx").write_bytes(scaling_backbone(shape))
        fleet.operator(
            *("model", "import-backbone", str(tmp_path / "pixels.onnx")),
            *("--preprocessing", str(described)),
        )
        fleet.set_up_agent(CAMERA)
        (tmp_path / CAMERA / "evaluation").mkdir(exist_ok=True)
        yield fleet


def samples(fleet: ProcessFleet) -> int:
    with ledger_of(fleet.home) as ledger:
        held = state_of(ledger).contributions.held()
    return sum(samples for _, samples in held.values())


def told(fleet: ProcessFleet, home: str) -> str:
    return " ".join(told_texts(fleet.status(home)))


def test_a_copied_home_costs_the_original_nothing(fleet: ProcessFleet) -> None:
    for name in CLASSES:
        put_pictures(fleet.folder / CAMERA / "data", name, range(96))
    fleet.start_coordinator()
    fleet.start_agent(CAMERA)
    fleet.operator("coordinator", "open-stage", *CLASSES)
    fleet.until(lambda: samples(fleet) == 192 and fleet.status(CAMERA).outbox == 0)
    fleet.stop(CAMERA)
    shutil.copytree(fleet.folder / CAMERA, fleet.folder / COPY)
    fleet.start_agent_that_soon_returns(CAMERA)
    fleet.start_agent_that_soon_returns(COPY)
    fleet.until(lambda: fleet.entries(DeviceDoubled))
    fleet.until(lambda: "this one is" in told(fleet, CAMERA) and "this one is" in told(fleet, COPY))
    assert "Two installations run as" in fleet.operator(
        "coordinator", "status", code=ExitCode.NEEDS_A_PERSON
    )
    assert "two installations run under this name" in fleet.said("coordinator")
    assert samples(fleet) == 192

    # Both are reached under one name, and each is told what concerns it alone.
    chosen = told(fleet, CAMERA).split("this one is ", 1)[1].split(",", 1)[0]
    fleet.operator("coordinator", "settle", CAMERA, "--installation", chosen)
    fleet.until(lambda: "shut this one out" in told(fleet, COPY))
    fleet.stop(COPY)
    put_pictures(fleet.folder / CAMERA / "data", "vertical", range(2000, 2004))
    fleet.until(lambda: samples(fleet) == 196)
    assert "shut this one out" not in told(fleet, CAMERA)
    assert fleet.entries(ContributionWithdrawn) == []
    assert "nothing" in fleet.agent("resubmit", COPY)
    fleet.operator("ledger", "verify")
