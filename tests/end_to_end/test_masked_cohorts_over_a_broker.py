"""Programs over Mosquitto whose numbers are summed behind masks, while one is killed for good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fleetledger.coordinator.topics.cohorts.entries import CohortJoined, CohortSummed
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.memory_fleet import put_pictures
from tests.end_to_end.process_fleet import ProcessFleet

pytestmark = [pytest.mark.broker, pytest.mark.nightly, pytest.mark.timeout(600)]

DEVICES = ("one", "two", "three", "four")
CLASSES = ("vertical", "horizontal")
PREPROCESSING = """\
mode = "L"
size = [4, 4]
mean = [0.0]
deviation = [1.0]
input_name = "image"
"""
METHOD = """\
[method]
name = "stsa"
[method.settings]
map_width = 40
form = "exact"
"""
MASKS = """\
[privacy]
masks = true
cohort = 4
least = 3
wait_seconds = 60
answer_seconds = 8
"""


def prepared(
    folder: Path, broker: MosquittoBroker, children: Children, more: str, devices: Sequence[str]
) -> ProcessFleet:
    """A fleet whose coordinator serves and whose devices have pictures, and do not run yet."""
    fleet = ProcessFleet(folder, broker, children)
    fleet.name = folder.name
    fleet.set_up_coordinator(more + METHOD)
    described = folder / "pixels.toml"
    described.write_text(PREPROCESSING, encoding="utf-8")
    shape = Preprocessing(mode="L", size=(4, 4), mean=(0.0,), deviation=(1.0,), input_name="image")
    (folder / "pixels.onnx").write_bytes(scaling_backbone(shape))
    fleet.operator(
        *("model", "import-backbone", str(folder / "pixels.onnx")),
        *("--preprocessing", str(described)),
    )
    for at, device in enumerate(devices):
        fleet.set_up_agent(device)
        (folder / device / "evaluation").mkdir(exist_ok=True)
        for name, count in (("vertical", 10), ("horizontal", 4)):
            put_pictures(folder / device / "data", name, range(10 * at, 10 * at + count))
    fleet.start_coordinator()
    fleet.operator("coordinator", "open-stage", *CLASSES)
    return fleet


def learned(fleet: ProcessFleet, contributions: int) -> ModelSolved:
    """Wait for a model of so many contributions."""

    def newest() -> ModelSolved | None:
        solved = [body for _, body in fleet.entries(ModelSolved)]
        return solved[-1] if solved and solved[-1].contributions == contributions else None

    fleet.until(newest)
    found = newest()
    assert found is not None
    return found


def test_one_of_four_is_killed_and_the_sum_is_that_of_the_others_without_masks(
    tmp_path: Path,
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (tmp_path / "plain").mkdir()
    (tmp_path / "masked").mkdir()
    with (
        MosquittoBroker(tmp_path / "broker", DEVICES) as broker,
        Children(logs) as children,
    ):
        fleet = prepared(tmp_path / "masked", broker, children, MASKS, DEVICES)
        fleet.start_agent("four")
        fleet.until(lambda: fleet.entries(CohortJoined))
        fleet.kill("four")
        for device in DEVICES[:3]:
            fleet.start_agent(device)
        model = learned(fleet, 1)
        ((_, summed),) = fleet.entries(CohortSummed)
        assert set(summed.members) == set(DEVICES[:3])
        parts = [body.part for _, body in fleet.entries(ContributionAccepted)]
        assert all(part.cohort is not None and not part.samples for part in parts)
        fleet.until(lambda: "sums of at least 3 devices" in fleet.status("one").masks)
        assert "masks" in fleet.agent("status", "one")
        fleet.operator("ledger", "verify")
        for device in (*DEVICES[:3], "coordinator"):
            fleet.stop(device)

        plain = prepared(tmp_path / "plain", broker, children, "", DEVICES[:3])
        for device in DEVICES[:3]:
            plain.start_agent(device)
        assert learned(plain, 3).aggregate == model.aggregate
