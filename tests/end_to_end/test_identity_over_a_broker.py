"""Real programs at a real Mosquitto: replaced hardware, a second coordinator, a retired device."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest

from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.topics.contributions.entries import ContributionWithdrawn
from fleetledger.coordinator.topics.devices.entries import DeviceRetired
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.device_agent.making import told_texts
from tests.end_to_end.memory_fleet import put_pictures
from tests.end_to_end.process_fleet import ProcessFleet
from tests.end_to_end.test_a_cloned_card_over_a_broker import CLASSES, PREPROCESSING, samples

pytestmark = pytest.mark.broker

CAMERA, GARDEN = "camera", "garden"
SETTINGS = """\
[stages]
quiet_seconds = 1
[intake]
replacement_seconds = 1
[method]
name = "stsa"
[method.settings]
map_width = 40
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessFleet]:
    """A camera that alone has `vertical`, and a garden that alone has `horizontal`.

    Every test goes on with what is there, and leaves all programs running.
    """
    tmp_path = tmp_path_factory.mktemp("identity")
    logs = tmp_path / "logs"
    logs.mkdir()
    with (
        MosquittoBroker(tmp_path / "broker", (CAMERA, GARDEN)) as broker,
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
        for device in (CAMERA, GARDEN):
            install(fleet, device)
        bring(fleet, CAMERA, "vertical", range(24))
        bring(fleet, GARDEN, "horizontal", range(24))
        fleet.start_coordinator()
        for device in (CAMERA, GARDEN):
            fleet.start_agent(device)
        fleet.operator("coordinator", "open-stage", *CLASSES)
        fleet.until(lambda: samples(fleet) == 48)
        yield fleet


def install(fleet: ProcessFleet, device: str) -> None:
    """Make a home for a device on new hardware, and admit it."""
    fleet.set_up_agent(device)
    (fleet.folder / device / "evaluation").mkdir(exist_ok=True)


def replace(fleet: ProcessFleet, numbers: range) -> None:
    """Put other hardware in the camera's place, with other pictures."""
    fleet.stop(CAMERA)
    shutil.rmtree(fleet.folder / CAMERA)
    install(fleet, CAMERA)
    bring(fleet, CAMERA, "vertical", numbers)
    fleet.start_agent(CAMERA)


def bring(fleet: ProcessFleet, device: str, name: str, numbers: range) -> None:
    put_pictures(fleet.folder / device / "data", name, numbers)


def needs(fleet: ProcessFleet) -> str:
    with ledger_of(fleet.home) as ledger:
        found = fleet_now(ledger, read_live(fleet.home), time.time_ns())
    return " ".join(need.sentence for need in found.needs)


def is_asked(fleet: ProcessFleet) -> bool:
    return "runs as another installation" in needs(fleet)


def test_replaced_hardware_takes_nothing_away_until_somebody_says_so(fleet: ProcessFleet) -> None:
    before = samples(fleet)
    replace(fleet, range(1000, 1006))
    fleet.until(lambda: is_asked(fleet))
    fleet.until(lambda: fleet.status(CAMERA).outbox == 1)
    assert "24 samples" in fleet.operator("coordinator", "status", code=ExitCode.NEEDS_A_PERSON)
    assert samples(fleet) == before
    fleet.operator("device", "replaced", CAMERA, "keep")
    fleet.until(lambda: samples(fleet) == before + 6)
    assert not is_asked(fleet)

    replace(fleet, range(2000, 2003))
    fleet.until(lambda: is_asked(fleet))
    assert samples(fleet) == before + 6
    fleet.operator("device", "replaced", CAMERA, "drop")
    fleet.until(lambda: samples(fleet) == before + 3)  # what was kept stays, the 6 leave, 3 came
    assert fleet.entries(ContributionWithdrawn) == []
    fleet.operator("ledger", "verify")


def test_devices_give_nothing_to_two_coordinators_and_all_to_the_one_that_is_left(
    fleet: ProcessFleet,
) -> None:
    before, copy = samples(fleet), fleet.folder / "copy"
    shutil.copytree(fleet.home, copy)
    fleet.start("copy", "coordinator", "serve", "--home", str(copy))
    fleet.until(lambda: "another one runs for fleet" in fleet.said("copy"))
    fleet.until(lambda: "a copy of this home" in fleet.said("coordinator"))
    fleet.until(lambda: "The coordinator cannot do its work: " in needs(fleet))
    shown = fleet.operator("coordinator", "status", code=ExitCode.NEEDS_A_PERSON)
    assert "stop the one that should not run" in shown
    bring(fleet, CAMERA, "vertical", range(3000, 3006))
    fleet.until(lambda: fleet.status(CAMERA).outbox == 1)
    assert samples(fleet) == before
    fleet.stop("copy")
    fleet.until(lambda: samples(fleet) == before + 6)
    fleet.until(lambda: "cannot do its work" not in needs(fleet))


def test_nothing_waits_for_a_retired_device_and_it_can_come_back(fleet: ProcessFleet) -> None:
    before = samples(fleet)
    fleet.stop(GARDEN)
    fleet.operator("device", "retire", GARDEN, "--reason", "scrapped")
    assert [body.device for _, body in fleet.entries(DeviceRetired)] == [GARDEN]
    fleet.operator("coordinator", "open-stage", "slanted")
    fleet.until(lambda: any(body.stage == 2 for _, body in fleet.entries(StageClosed)))
    assert GARDEN not in needs(fleet)

    fleet.start_agent(GARDEN)
    fleet.until(lambda: "retired" in " ".join(told_texts(fleet.status(GARDEN))))
    fleet.operator("coordinator", "admit", GARDEN)
    bring(fleet, GARDEN, "horizontal", range(1000, 1006))
    fleet.until(lambda: samples(fleet) == before + 6)
