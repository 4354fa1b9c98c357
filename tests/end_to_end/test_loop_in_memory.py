"""The loop with real agents and a real coordinator: images in, the new model on the devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.coordinator.topics.classes.commands import RenameClass
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionWithdrawn,
    NothingReported,
)
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, ModelSolved
from fleetledger.schemas.reports import Evaluation
from fleetledger.schemas.values import ClassName
from fleetledger.transport.faults import Faults
from fleetledger.transport.memory import InMemoryBroker
from tests.end_to_end.memory_fleet import MemoryFleet, put_pictures

SETTINGS = {"map_width": 60, "form": "exact"}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    made = MemoryFleet(tmp_path, InMemoryBroker(), **SETTINGS)
    yield made
    made.close()


def last_solved(fleet: MemoryFleet) -> ModelSolved:
    solved = fleet.entries(ModelSolved)[-1]
    assert isinstance(solved, ModelSolved)
    return solved


def counts(fleet: MemoryFleet, **samples: int) -> bool:
    """Whether the newest model was solved from exactly these images."""
    models = fleet.entries(ModelSolved)
    state = fleet.coordinator.engine.core.state
    return (
        fleet.counted_samples() == samples
        and bool(models)
        and state.contributions.unchanged_since(last_solved(fleet).ledger_size)
    )


def test_two_devices_learn_in_two_stages_and_run_the_model(fleet: MemoryFleet) -> None:
    one, two = fleet.add("one"), fleet.add("two")
    put_pictures(one.data, "vertical", range(20))
    put_pictures(two.data, "horizontal", range(20))
    for device in (one, two):
        for name in ("vertical", "horizontal", "spot"):
            put_pictures(device.evaluation, name, range(100, 110))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: len(fleet.entries(DeviceEvaluated)) >= 2)
    put_pictures(two.data, "spot", range(20))
    fleet.coordinator.open("spot")
    fleet.until(lambda: counts(fleet, vertical=20, horizontal=20, spot=20))
    version = last_solved(fleet).version

    def evaluated() -> list[Evaluation]:
        bodies = [b for b in fleet.entries(DeviceEvaluated) if isinstance(b, DeviceEvaluated)]
        return [body.evaluation for body in bodies if body.evaluation.version == version]

    fleet.until(lambda: len(evaluated()) == 2)
    for body in evaluated():
        assert set(body.results) == {"vertical", "horizontal", "spot"}
        right = sum(result.correct for result in body.results.values())
        assert right >= 28, body.results
    assert fleet.entries(NothingReported), "the first device has nothing for the second stage"


def test_what_a_reinstalled_device_counts_anew_takes_the_place_of_what_it_gave(
    fleet: MemoryFleet,
) -> None:
    one, two = fleet.add("one"), fleet.add("two")
    put_pictures(one.data, "vertical", range(12))
    put_pictures(two.data, "horizontal", range(12))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: counts(fleet, vertical=12, horizontal=12))
    before = last_solved(fleet)
    one.reinstall()
    fleet.until(
        lambda: (
            counts(fleet, vertical=12, horizontal=12)
            and last_solved(fleet).version > before.version
            and len(fleet.entries(ContributionAccepted)) == 3
        )
    )
    assert not fleet.entries(ContributionWithdrawn)
    after = last_solved(fleet)
    assert after.ledger_size > before.ledger_size
    assert (after.aggregate, after.head) == (before.aggregate, before.head)


def test_a_relabelled_image_replaces_the_part_that_counted_it(fleet: MemoryFleet) -> None:
    one = fleet.add("one")
    put_pictures(one.data, "vertical", range(10))
    put_pictures(one.data, "horizontal", range(10))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: counts(fleet, vertical=10, horizontal=10))
    (one.data / "vertical" / "3.png").rename(one.data / "horizontal" / "was-3.png")
    fleet.until(lambda: counts(fleet, vertical=9, horizontal=11))
    assert len(fleet.coordinator.engine.core.state.contributions.counted) == 1


def test_moved_and_copied_files_change_nothing(fleet: MemoryFleet) -> None:
    one = fleet.add("one")
    put_pictures(one.data, "vertical", range(10))
    put_pictures(one.data, "horizontal", range(10))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: counts(fleet, vertical=10, horizontal=10))
    (one.data / "vertical" / "3.png").rename(one.data / "vertical" / "moved.png")
    data = (one.data / "vertical" / "4.png").read_bytes()
    (one.data / "vertical" / "copy.png").write_bytes(data)
    fleet.settle(1.5)
    assert counts(fleet, vertical=10, horizontal=10)
    assert len(fleet.entries(ContributionAccepted)) == 1


@pytest.mark.nightly
def test_images_of_a_renamed_class_go_on_counting_under_the_new_name(fleet: MemoryFleet) -> None:
    one = fleet.add("one")
    put_pictures(one.data, "vertical", range(10))
    put_pictures(one.data, "horizontal", range(10))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: counts(fleet, vertical=10, horizontal=10))
    fleet.coordinator.command(RenameClass(old=ClassName("vertical"), new=ClassName("upright")))
    put_pictures(one.data, "vertical", range(10, 15))
    fleet.until(lambda: counts(fleet, vertical=15, horizontal=10))
    assert last_solved(fleet).class_names == ("upright", "horizontal")


def test_a_lossy_broker_and_restarts_end_with_the_same_sum(tmp_path: Path) -> None:
    digests = []
    for name, faults in (
        ("calm", None),
        ("storm", Faults(seed=3, drop=0.2, duplicate=0.2, reorder=0.2)),
    ):
        broker = InMemoryBroker(faults=faults)
        fleet = MemoryFleet(tmp_path / name, broker, **SETTINGS)
        one, two = fleet.add("one"), fleet.add("two")
        put_pictures(one.data, "vertical", range(15))
        put_pictures(two.data, "horizontal", range(15))
        fleet.begin("vertical", "horizontal")
        if faults is not None:
            fleet.settle(0.5)
            one.stop()
            one.start()
            broker.restart()
        put_pictures(two.data, "vertical", range(15, 20))
        fleet.until(lambda f=fleet: counts(f, vertical=20, horizontal=15))
        digests.append(last_solved(fleet).aggregate)
        fleet.close()
    assert digests[0] == digests[1]
