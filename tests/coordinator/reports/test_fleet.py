"""The fleet just now: who is there, what runs where and how well, and what needs a person."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.live.snapshot import CoordinatorNow, DeviceNow, LiveSnapshot
from fleetledger.coordinator.reports.fleet import FleetNow, fleet_now
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.schemas.health import DeviceHealth, HealthProblem, ThermalZone
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.reports import ClassResult, Evaluation, Problem
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import CAPABLE, SECOND, Bench, contribution, exported, names
from tests.coordinator.every_kind.facts import unpack
from tests.coordinator.reports.test_views import RULES, write
from tests.coordinator.topics.models.test_models import wanted

NOW = 5_000 * SECOND


def live(*devices: DeviceNow, **changes: object) -> LiveSnapshot:
    """What a coordinator that runs has written a second ago."""
    values = {
        "fleet": "orchard",
        "version": "0.1.0",
        "pid": 1,
        "started_ns": NOW - 100 * SECOND,
        "written_ns": NOW - SECOND,
        "connected": True,
    }
    run_now = CoordinatorNow.model_validate(values | changes)
    return LiveSnapshot(coordinator=run_now, devices={item.device: item for item in devices})


def here(name: str, **changes: object) -> DeviceNow:
    """A device that is online."""
    values = {"device": name, "online": True, "since_ns": NOW - 9 * SECOND, "heard_ns": NOW}
    return DeviceNow.model_validate(values | changes)


def seen(tmp_path: Path, bench: Bench, snapshot: LiveSnapshot | None) -> FleetNow:
    """The fleet whose ledger a bench has made."""
    tmp_path.mkdir(exist_ok=True)
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        return fleet_now(ledger, snapshot, NOW)


def closed(bench: Bench) -> None:
    """Close the stage of `cat` and `dog` with samples of both."""
    bench.give("dev-1", contribution("a", samples={"cat": 3, "dog": 2}))
    bench.command(CloseStage())


def two_stages() -> Bench:
    """A model of `cat` and `dog` of stage 1, and `eel` of stage 2, measured on dev-1."""
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2", classes=("cat", "dog"))
    bench.give("dev-1", contribution("a", samples={"cat": 3, "dog": 2}))
    bench.command(OpenStage(class_names=names("eel")))
    bench.give("dev-1", contribution("b", stage=2, samples={"eel": 2}))
    bench.command(CloseStage())
    bench.make_model(wanted(bench.wait(10)))
    return bench


def evaluation(version: int, **results: tuple[int, int]) -> Message:
    return Evaluation(
        version=version,
        manifest=exported(version).manifest.digest,
        results={
            names(name)[0]: ClassResult(correct=right, total=total)
            for name, (right, total) in results.items()
        },
        provider="CPUExecutionProvider",
        seconds=0.1,
        bytes_up=1,
        bytes_down=2,
    )


def test_accuracy_on_a_device_is_told_for_old_and_new_classes(tmp_path: Path) -> None:
    bench = two_stages()
    bench.message("dev-1", evaluation(1, cat=(3, 4), dog=(2, 2), eel=(1, 5)))
    fleet = seen(tmp_path, bench, live(here("dev-1")))
    measured = fleet.devices[0].accuracy
    assert measured is not None
    assert measured.all is not None
    assert (measured.all.correct, measured.all.total) == (6, 11)
    assert measured.old is not None
    assert (measured.old.correct, measured.old.total) == (5, 6)
    assert measured.new is not None
    assert measured.new.share == 0.2
    assert bench.entries[measured.index][0].kind == "device.evaluated"
    assert fleet.devices[1].accuracy is None


def test_devices_are_online_away_or_never_seen(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    closed(bench)
    bench.command(AdmitDevice(device=DeviceId("dev-3")))
    there = here("dev-1", outbox=4)
    gone = here("dev-2", online=False, heard_ns=NOW - 60 * SECOND)
    fleet = seen(tmp_path, bench, live(there, gone))
    assert [item.state for item in fleet.devices] == ["online", "away", "never seen"]
    assert fleet.devices[0].outbox == 4
    assert fleet.devices[1].last_seen == NOW - 60 * SECOND
    assert fleet.devices[2].last_seen is None
    assert fleet.coordinator.since == NOW - 100 * SECOND
    assert fleet.fleet == "orchard"
    assert [need.devices for need in fleet.needs] == [("dev-3",)]


@pytest.mark.parametrize(
    ("snapshot", "said"),
    [
        (None, "nothing goes out"),
        (live(written_ns=NOW - 60 * SECOND), "not been heard of since 01:22:20 UTC"),
        (live(stopped=True), "was stopped at 01:23:19 UTC"),
    ],
)
def test_without_a_coordinator_nobody_knows_who_is_there(
    tmp_path: Path, snapshot: LiveSnapshot | None, said: str
) -> None:
    bench = Bench()
    bench.begin("dev-1")
    fleet = seen(tmp_path, bench, snapshot)
    assert not fleet.coordinator.running
    assert [item.state for item in fleet.devices] == ["unknown"]
    assert said in fleet.needs[0].sentence
    assert fleet.needs[0].command == "fleetledger coordinator serve"


def test_the_open_stage_says_who_is_missing(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    bench.give("dev-2", contribution("a"))
    fleet = seen(tmp_path, bench, live())
    assert fleet.stage is not None
    assert (fleet.stage.answered, fleet.stage.missing) == (("dev-2",), ("dev-1",))
    assert fleet.stage.round is None
    assert bench.entries[fleet.stage.index][0].kind == "stage.opened"


def test_a_problem_is_over_when_the_device_begins_anew(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin("dev-1")
    closed(bench)
    bench.message("dev-1", Problem(about="sample", text="x.png cannot be read"))
    fleet = seen(tmp_path / "before", bench, live(here("dev-1")))
    (trouble,) = fleet.devices[0].problems
    assert (trouble.about, trouble.text) == ("sample", "x.png cannot be read")
    (need,) = fleet.needs
    assert trouble.since is not None
    assert need.sentence == "dev-1 has a problem with sample: x.png cannot be read"
    assert need.since == trouble.since
    assert need.index == trouble.index
    bench.born("dev-1")
    after = seen(tmp_path / "after", bench, live(here("dev-1")))
    assert after.devices[0].problems == ()
    assert after.needs == ()


def test_health_tells_of_the_hottest_zone_and_of_problems(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin("dev-1")
    closed(bench)
    said = DeviceHealth(
        temperatures=(
            ThermalZone(zone="cpu", celsius=50.0),
            ThermalZone(zone="gpu", celsius=71.5),
        ),
        free_disk_bytes=10,
        problems=(
            HealthProblem(about="disk", text="nearly full", seconds=80),
            HealthProblem(about="provider", text="the GPU is gone"),
            HealthProblem(about="certificate", text="it ends soon", seconds=90, hinders=False),
        ),
    )
    fleet = seen(tmp_path, bench, live(here("dev-1", health=said, health_ns=NOW)))
    health = fleet.devices[0].health
    assert health is not None
    assert (health.hottest_zone, health.celsius, health.free_disk_bytes) == ("gpu", 71.5, 10)
    assert fleet.devices[0].hindered_since == NOW - 80 * SECOND
    assert [need.sentence for need in fleet.needs] == [
        "dev-1 has a problem with disk: nearly full",
        "dev-1 has a problem with provider: the GPU is gone",
        "dev-1 has a problem with certificate: it ends soon",
    ]
    gone = seen(
        tmp_path / "away", bench, live(here("dev-1", online=False, health=said, health_ns=NOW))
    )
    assert gone.devices[0].problems == (), "nobody knows what hinders a device that is away"
    assert gone.devices[0].hindered_since is None


def test_a_model_that_failed_on_devices_is_one_need(tmp_path: Path) -> None:
    bench = two_stages()
    manifest = exported(1).manifest.digest
    for name in ("dev-1", "dev-2"):
        status = ModelStatus(version=1, manifest=manifest, state="failed", reason="self-test")
        bench.message(name, status)
    fleet = seen(tmp_path, bench, live())
    assert "Model 1 failed on dev-1, dev-2: self-test." in [n.sentence for n in fleet.needs]


def test_times_are_written_as_iso_times(tmp_path: Path) -> None:
    fleet = seen(tmp_path, two_stages(), live())
    assert json.loads(fleet.model_dump_json())["time"] == "1970-01-01T01:23:20Z"


def test_whatever_needs_a_person_leads_to_an_entry(tmp_path: Path) -> None:
    """The ledger holds every kind of entry."""
    with ledger_of(unpack(tmp_path)) as ledger:
        fleet = fleet_now(ledger, None, NOW)
        assert fleet.ledger.size == ledger.size
        indices = [need.index for need in fleet.needs if need.index is not None]
        assert indices
        assert max(indices) < ledger.size
    assert FleetNow.model_validate(fleet.model_dump()) == fleet
    assert sorted({need.urgency for need in fleet.needs}) == ["now", "today"]


def test_devices_that_run_another_program_than_the_coordinator_are_a_need(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin("dev-1", "dev-2", "dev-3")
    closed(bench)
    older = CAPABLE.model_copy(update={"agent_version": "0.0.9"})
    bench.born("dev-2", capabilities=older)
    there = [here(name) for name in ("dev-1", "dev-2", "dev-3")]
    fleet = seen(tmp_path / "one", bench, live(*there))
    assert [one.agent_version for one in fleet.devices] == ["0.1.0", "0.0.9", "0.1.0"]
    (need,) = fleet.needs
    assert need.sentence == "1 device runs fleetledger 0.0.9; the coordinator runs 0.1.0."
    assert (need.urgency, need.devices) == ("today", ("dev-2",))
    bench.born("dev-3", capabilities=older)
    (both,) = seen(tmp_path / "two", bench, live(*there)).needs
    assert both.sentence == "2 devices run fleetledger 0.0.9; the coordinator runs 0.1.0."
    bench.born("dev-2")
    bench.born("dev-3")
    assert seen(tmp_path / "none", bench, live(*there)).needs == ()


def test_devices_stand_in_the_order_in_which_people_count(tmp_path: Path) -> None:
    bench = Bench()
    for name in ("device-100", "device-10", "device-1", "device-2", "device-b", "gate"):
        bench.command(AdmitDevice(device=DeviceId(name)))
    names = [one.name for one in seen(tmp_path, bench, live()).devices]
    assert names == ["device-1", "device-2", "device-10", "device-100", "device-b", "gate"]
