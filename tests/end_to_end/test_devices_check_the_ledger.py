"""Devices that have the coordinator's key: receipts prove, and a shorter ledger is noticed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.keys import coordinator_key, note_reader, public_key
from fleetledger.coordinator.ledger.mirror import Mirror
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.restore import LedgerOwner, restore
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.entries import DeviceProblem
from fleetledger.coordinator.topics.models.entries import ModelDesired, ModelExported, ModelSolved
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.device_agent.core.state import AgentRules, LedgerTrust
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.faults import Faults
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import FLEET, MemoryCoordinator
from tests.device_agent.making import told_texts
from tests.end_to_end.memory_fleet import RULES, MemoryFleet, put_pictures


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MemoryFleet]:
    broker = InMemoryBroker(faults=Faults(seed=3, drop=0.1, duplicate=0.1))
    made = MemoryFleet(tmp_path, broker, map_width=60, form="exact")
    yield made
    made.close()


@pytest.fixture
def undisturbed(tmp_path: Path) -> Iterator[MemoryFleet]:
    """One whose broker loses nothing: what is said once is heard."""
    made = MemoryFleet(tmp_path, InMemoryBroker(), map_width=60, form="exact")
    yield made
    made.close()


def trusting(fleet: MemoryFleet, device: str) -> AgentRules:
    key = coordinator_key(fleet.coordinator.home, FLEET).verify_key
    return replace(RULES, trust=LedgerTrust(FLEET, DeviceId(device), key))


def learn(fleet: MemoryFleet) -> None:
    for name, shown in (("one", "vertical"), ("two", "horizontal")):
        device = fleet.add(name, trusting(fleet, name))
        put_pictures(device.data, shown, range(20))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 20, "horizontal": 20})
    fleet.until(lambda: all(device.outbox == 0 for device in fleet.devices.values()))


def seen(fleet: MemoryFleet) -> list[int]:
    sizes = (device.status().ledger_seen for device in fleet.devices.values())
    return [size or 0 for size in sizes]


def told(fleet: MemoryFleet, about: str) -> list[str]:
    problems = (body for body in fleet.entries(DeviceProblem))
    return [p.text for p in problems if isinstance(p, DeviceProblem) and p.about == about]


def test_what_devices_gave_is_proven_to_them_also_after_a_restart(fleet: MemoryFleet) -> None:
    learn(fleet)
    fleet.until(lambda: min(seen(fleet)) > 0)
    before = min(seen(fleet))
    fleet.restart_coordinator()
    # Where a birth or heartbeat is lost, the coordinator does not know what a device has seen: the
    # receipt proves what it names, and that the ledger has grown the next one proves.
    for given in range(20, 320, 10):
        for name, shown in (("one", "vertical"), ("two", "horizontal")):
            put_pictures(fleet.devices[name].data, shown, range(given, given + 10))
        counted = {"vertical": given + 10, "horizontal": given + 10}
        fleet.until(lambda: fleet.counted_samples() == counted)  # noqa: B023 - at once
        fleet.until(lambda: all(device.outbox == 0 for device in fleet.devices.values()))
        fleet.until(lambda: all(device.status().outbox == 0 for device in fleet.devices.values()))
        if min(seen(fleet)) > before:
            break
    assert min(seen(fleet)) > before
    assert not told(fleet, "ledger")


def mirror(fleet: MemoryFleet, place: Path) -> int:
    """Mirror the ledger beside its coordinator; return how many entries the mirror has."""
    home = fleet.coordinator.home
    read_note = note_reader(home, FLEET)
    assert read_note is not None
    with ledger_of(home) as ledger:
        blobs = Blobs(ledger, BlobStore(blob_folder(home)))
        return [step.size for step in Mirror(place, read_note, Prunings).steps(ledger, blobs)][-1]


def restore_coordinator(fleet: MemoryFleet, place: Path) -> None:
    """Lose the coordinator's machine; begin anew with its key, its settings and the mirror."""
    home = fleet.coordinator.home
    fleet.coordinator.kill()
    kept = home.with_name("kept")
    kept.mkdir()
    shutil.copy(home / "coordinator.toml", kept)
    shutil.copytree(home / "keys", kept / "keys")
    shutil.rmtree(home)
    kept.rename(home)
    key = public_key(home)
    assert key is not None
    restore(place, home, LedgerOwner(FLEET, key, Prunings()))
    fleet.coordinator = MemoryCoordinator(home, fleet.broker)


def test_devices_go_on_with_a_coordinator_that_was_restored_from_its_mirror(
    undisturbed: MemoryFleet, tmp_path: Path
) -> None:
    fleet = undisturbed
    learn(fleet)
    fleet.until(lambda: fleet.entries(ModelExported) and min(seen(fleet)) > 0)
    solved, home = fleet.entries(ModelSolved), fleet.coordinator.home
    size = mirror(fleet, tmp_path / "mirror")
    root = fleet.coordinator.engine.ledger.root_at(size)
    restore_coordinator(fleet, tmp_path / "mirror")

    assert fleet.coordinator.engine.ledger.root_at(size) == root
    assert fleet.entries(ModelSolved)[:1] == solved[:1]
    put_pictures(fleet.devices["one"].data, "vertical", range(20, 30))
    put_pictures(fleet.devices["two"].data, "horizontal", range(20, 30))
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 30, "horizontal": 30})
    fleet.until(lambda: all(device.outbox == 0 for device in fleet.devices.values()))
    fleet.until(lambda: min(seen(fleet)) > size)
    assert not told(fleet, "ledger")
    for check in ("verify", "replay"):  # the tables too; aggregate and head, digest for digest
        done = CliRunner().invoke(cli.app, [check, "--home", str(home)])
        assert done.exit_code == 0, done.output


def test_a_coordinator_restored_from_a_mirror_that_lags_is_told_which_entries_it_lacks(
    undisturbed: MemoryFleet, tmp_path: Path
) -> None:
    fleet = undisturbed
    learn(fleet)
    fleet.until(lambda: len(fleet.entries(ModelDesired)) > 0)  # else it is desired after restoring
    size = mirror(fleet, tmp_path / "mirror")
    fleet.restart_coordinator()
    for name, shown in (("one", "vertical"), ("two", "horizontal")):
        put_pictures(fleet.devices[name].data, shown, range(20, 40))
    fleet.until(lambda: fleet.counted_samples() == {"vertical": 40, "horizontal": 40})
    fleet.until(lambda: min(seen(fleet)) > size)
    restore_coordinator(fleet, tmp_path / "mirror")

    lacks = ("restored from a backup that ends before entry", "there are two histories")
    fleet.until(lambda: any(words in text for text in told(fleet, "ledger") for words in lacks))
    doubted = "agent forget --checkpoint"
    for device in fleet.devices.values():
        fleet.until(lambda: doubted in " ".join(told_texts(device.status())))  # noqa: B023 - at once


def test_a_device_with_another_key_keeps_what_it_gave(fleet: MemoryFleet, tmp_path: Path) -> None:
    stranger = coordinator_key(tmp_path / "stranger", FLEET).verify_key
    rules = replace(RULES, trust=LedgerTrust(FLEET, DeviceId("one"), stranger))
    one = fleet.add("one", rules)
    put_pictures(one.data, "vertical", range(20))
    fleet.begin("vertical", "horizontal")
    fleet.until(lambda: fleet.entries(ContributionAccepted))
    fleet.until(lambda: any("not believed" in text for text in told_texts(one.status())))
    assert one.outbox > 0
