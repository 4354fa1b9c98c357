"""Variants with real agents and a real coordinator: made, delivered, run, told, and taken away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleetledger.coordinator.models.variants import no_variants, prepare_variants, shown
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.commands import MakeVariants
from fleetledger.coordinator.topics.models.entries import (
    DeviceEvaluated,
    DeviceModelStatus,
    ModelExported,
)
from fleetledger.schemas.reports import Evaluation
from fleetledger.schemas.variants import VARIANT_NAMES
from fleetledger.transport.memory import InMemoryBroker
from tests.end_to_end.memory_fleet import RULES, MemoryFleet, put_pictures

CLASSES = ("vertical", "horizontal")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    made = MemoryFleet(tmp_path, InMemoryBroker(), map_width=60, form="exact")
    yield made
    made.close()


def statuses(fleet: MemoryFleet) -> dict[tuple[str, int], str | None]:
    """The variant of each version on each device, by the ledger."""
    entries = fleet.coordinator.engine.ledger.find(DeviceModelStatus)
    said = [(str(entry.device), entry.body["status"]) for entry in entries]
    return {(device, status["version"]): status.get("variant") for device, status in said}


def newest(fleet: MemoryFleet) -> ModelExported:
    exported = fleet.entries(ModelExported)[-1]
    assert isinstance(exported, ModelExported)
    return exported


def tells_int8(lines: Iterable[str], version: int) -> bool:
    start = f"in model {version}, int8 has the reference's"
    return any(line.startswith(start) for line in lines)


def evaluated(fleet: MemoryFleet, version: int) -> list[Evaluation]:
    bodies = [body for body in fleet.entries(DeviceEvaluated) if isinstance(body, DeviceEvaluated)]
    return [body.evaluation for body in bodies if body.evaluation.version == version]


def test_a_device_class_runs_int8_while_all_contribute_through_the_reference(
    fleet: MemoryFleet, tmp_path: Path
) -> None:
    small = fleet.add("small", replace(RULES, variants=("int8",)))
    large = fleet.add("large")
    for device in (small, large):
        for name in CLASSES:
            put_pictures(device.data, name, range(15))
            put_pictures(device.evaluation, name, range(100, 110))
    fleet.begin(*CLASSES)
    fleet.until(lambda: len(fleet.entries(DeviceEvaluated)) >= 2)
    before = newest(fleet)
    assert not before.variants

    images = tmp_path / "calibration"
    for name in CLASSES:
        put_pictures(images, name, range(1000, 1120))
    home = fleet.coordinator.home
    prepared = prepare_variants(home, images, VARIANT_NAMES)
    assert [item.name for item in prepared.judged.admitted] == ["fp16", "int8"]
    assert "behind model" in " ".join(prepared.told())
    text = fleet.coordinator.command(MakeVariants(made=prepared.made))
    assert "have the variants fp16 and int8 from the next one on" in text
    # One that was being solved when the command came is still without them.
    fleet.until(lambda: bool(newest(fleet).variants))
    version = newest(fleet).version
    assert version > before.version
    assert [item.name for item in newest(fleet).variants] == ["fp16", "int8"]
    fleet.until(lambda: len(evaluated(fleet, version)) == 2)

    said = statuses(fleet)
    assert (said["small", version], said["large", version]) == ("int8", None)
    assert sorted(str(body.variant) for body in evaluated(fleet, version)) == ["None", "int8"]
    assert (small.status().variant, large.status().variant) == ("int8", None)
    # A model that was solved since then has them too.
    fleet.until(lambda: tells_int8(shown(home), newest(fleet).version))
    fp16 = newest(fleet).variants[0].frozen.digest
    assert fp16 not in small.files() | large.files(), "nobody fetches what it does not run"

    accepted = len(fleet.entries(ContributionAccepted))
    for device in (small, large):
        put_pictures(device.data, "vertical", range(50, 60))
    fleet.until(lambda: len(fleet.entries(ContributionAccepted)) >= accepted + 2)
    bodies = fleet.entries(ContributionAccepted)[accepted:]
    payloads = {body.part.payload for body in bodies if isinstance(body, ContributionAccepted)}
    assert len(payloads) == 1, "the same pictures give the same sums, whatever runs"

    fleet.coordinator.command(MakeVariants(made=no_variants(home)))
    fleet.until(lambda: not newest(fleet).variants)
    last = newest(fleet).version
    fleet.until(lambda: ("small", last) in statuses(fleet))
    assert statuses(fleet)["small", last] is None
