"""New class folders appear, nobody opens a stage, and the fleet learns them all the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from PIL import Image

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.rules import ModelRules, Rules, StageRules
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.models.entries import (
    DeviceEvaluated,
    ModelExported,
    TemperatureFitted,
)
from fleetledger.coordinator.topics.stages.entries import StageOpened, TransitionReported
from fleetledger.learning.numerics.detection import DetectionRules
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.reports import of_home
from tests.end_to_end.memory_fleet import RULES, MemoryFleet, put_pictures

BY_REPORTS = Rules(
    stages=StageRules(quiet_seconds=0.2, open="reports", reports_quorum=0.5, settle_seconds=0.5),
    models=ModelRules(solve_every_seconds=0.2),
)
NAMES = ("vertical", "horizontal", "spot")
Body = TypeVar("Body", bound=EntryBody)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    made = MemoryFleet(tmp_path, InMemoryBroker(), BY_REPORTS, map_width=60, form="exact")
    yield made
    made.close()


@pytest.fixture
def one_model(tmp_path: Path) -> Iterator[MemoryFleet]:
    """A fleet that makes no model of what comes late: under a new one devices look anew."""
    rules = Rules(stages=BY_REPORTS.stages, models=ModelRules(solve_every_seconds=3600))
    made = MemoryFleet(tmp_path, InMemoryBroker(), rules, map_width=60, form="exact")
    yield made
    made.close()


def found(fleet: MemoryFleet, kind: type[Body]) -> list[Body]:
    return [body for body in fleet.entries(kind) if isinstance(body, kind)]


def begin(fleet: MemoryFleet, *devices: str) -> None:
    """Two classes in the first stage, on all devices, and a model that runs."""
    for name in devices:
        device = fleet.add(name)
        put_pictures(device.data, "vertical", range(20))
        put_pictures(device.data, "horizontal", range(20, 40))
        for label in NAMES:
            put_pictures(device.evaluation, label, range(100, 120))
    fleet.begin("vertical", "horizontal")
    fleet.until(
        lambda: len({body.evaluation.version for body in found(fleet, DeviceEvaluated)}) >= 1
    )


def knows_spot(fleet: MemoryFleet, *devices: str) -> bool:
    """Whether the model that runs on these devices is right about the third class."""
    ledger = fleet.coordinator.engine.ledger
    right = {
        str(entry.device)
        for entry in ledger.find(DeviceEvaluated)
        if entry.body["evaluation"]["results"].get("spot", {}).get("correct", 0) >= 18
    }
    return right >= set(devices)


def test_a_fleet_opens_its_second_stage_by_itself(fleet: MemoryFleet) -> None:
    begin(fleet, "one", "two")
    put_pictures(fleet.devices["one"].data, "spot", range(15))
    put_pictures(fleet.devices["two"].data, "spot", range(15, 30))
    fleet.until(lambda: knows_spot(fleet, "one", "two"))
    first, second = found(fleet, StageOpened)
    assert first.reason == "operator"
    assert second.class_names == ("spot",)
    assert second.reason.startswith("reports of ")
    assert fleet.counted_samples()["spot"] == 30
    opened = [stage.opened_by for stage in of_home.stages(fleet.coordinator.home)]
    assert opened == ["operator", second.reason]


@pytest.mark.nightly
def test_the_fitted_temperature_is_in_the_next_manifest(fleet: MemoryFleet) -> None:
    begin(fleet, "one", "two")
    fleet.until(lambda: found(fleet, TemperatureFitted))
    put_pictures(fleet.devices["one"].data, "spot", range(15))
    fleet.until(lambda: knows_spot(fleet, "two"))
    scales = []
    for body in found(fleet, ModelExported):
        data = fleet.coordinator.blobs.get(body.manifest.digest)
        scales.append(Manifest.read(data).logit_scale)
    assert scales[0] == 10.0
    assert scales[-1] == found(fleet, TemperatureFitted)[-1].logit_scale
    assert scales[-1] != 10.0


@pytest.mark.nightly
def test_a_device_that_joins_late_contributes_at_once_and_brings_its_own_new_class(
    fleet: MemoryFleet,
) -> None:
    begin(fleet, "one")
    late = fleet.add("late")
    put_pictures(late.data, "vertical", range(50, 60))
    put_pictures(late.data, "spot", range(15))
    for label in NAMES:
        put_pictures(late.evaluation, label, range(100, 120))
    fleet.coordinator.command(AdmitDevice(device=DeviceId("late")))
    late.start()
    fleet.until(lambda: fleet.counted_samples().get("vertical") == 30)
    fleet.until(lambda: knows_spot(fleet, "one", "late"))
    assert fleet.counted_samples() == {"vertical": 30, "horizontal": 20, "spot": 15}
    stages = {body.part.key.stage for body in found(fleet, ContributionAccepted)}
    assert stages == {1, 2}
    assert "late (class folders spot)" in found(fleet, StageOpened)[-1].reason


def put_unlike(folder: Path, class_name: str, numbers: range) -> None:
    """Write pictures whose own noise is so strong that each is a shot of its own."""
    marks = np.zeros((4, 4), np.uint8)
    marks[
        {"vertical": np.s_[:, ::2], "horizontal": np.s_[::2], "spot": np.s_[1:3, 1:3]}[class_name]
    ] = 75
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        generator = np.random.default_rng([number, *class_name.encode()])
        pixels = generator.integers(0, 180, (4, 4)).astype(np.uint8) + marks
        hidden = folder / f".{class_name}-{number}.png"
        Image.fromarray(pixels, "L").save(hidden)
        hidden.rename(folder / f"{class_name}-{number}.png")


def test_strange_images_in_a_known_folder_are_reported_by_entropy(
    one_model: MemoryFleet,
) -> None:
    fleet = one_model
    rules = replace(RULES, detection=DetectionRules(quiet_images=20))
    one = fleet.add("one", rules)
    put_unlike(one.data / "vertical", "vertical", range(40))
    put_unlike(one.data / "horizontal", "horizontal", range(40, 80))
    for label in NAMES[:2]:
        put_unlike(one.evaluation / label, label, range(100, 160))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: found(fleet, DeviceEvaluated))
    put_unlike(one.data / "vertical", "vertical", range(200, 215))
    put_unlike(one.data / "horizontal", "horizontal", range(215, 230))
    fleet.until(lambda: sum(fleet.counted_samples().values()) == 110)
    assert found(fleet, TransitionReported) == []
    put_unlike(one.data / "vertical", "spot", range(60))
    fleet.until(lambda: found(fleet, TransitionReported))
    (told,) = (body.transition for body in found(fleet, TransitionReported))
    assert told.why == "entropy"
    assert told.uncertainty is not None
    assert told.uncertainty.value > told.uncertainty.baseline
    assert len(found(fleet, StageOpened)) == 1, "no stage without a name"
