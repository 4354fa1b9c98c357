"""Models that end the agent are gone back from; losing power often changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.errors import ModelError
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import SessionSettings
from fleetledger.device_agent.models.installer import Guards, Installer
from fleetledger.device_agent.models.probation import (
    ATTEMPTS_FILE,
    MAX_COUNT,
    PROBATION_FILE,
    Probation,
)
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from tests.device_agent import making
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8

SECONDS = 60.0


class Device:
    """An agent's installer, run after run; `now` is its clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.blobs = BlobFolder(folder / "blobs")
        self.run()

    def run(self) -> inputs.ModelFellBack | None:
        """Start the agent; what it had in memory is lost."""
        self.slots = ModelSlots(self.folder / "slots")
        self.probation = Probation(self.slots.folder, SECONDS, lambda: self.now)
        self.installer = Installer(
            self.blobs,
            self.slots,
            ModelHost(self.blobs, SessionSettings()),
            lambda _: [np.zeros(GREY_8.shape, np.float32)],
            guards=Guards(probation=self.probation),
        )
        active = self.slots.active()
        return self.installer.check_active(active.model) if active is not None else None

    def install(self, version: int) -> inputs.Input:
        model = models.exported(version, flipped=version % 2 == 0)
        return self.installer.install(models.store_model(self.blobs, model))

    def live(self, seconds: float) -> None:
        self.now += seconds
        self.installer.lived()

    @property
    def version(self) -> int | None:
        active = self.slots.active()
        return active.version if active is not None else None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetledger.device_agent.models.host.release_memory", lambda: None)


@pytest.fixture
def device(tmp_path: Path) -> Device:
    """A device that has lived with version 1, and has just switched to version 2."""
    device = Device(tmp_path)
    assert isinstance(device.install(1), inputs.ModelInstalled)
    device.live(SECONDS)
    assert isinstance(device.install(2), inputs.ModelInstalled)
    return device


def test_the_third_start_in_probation_goes_back_and_says_so(device: Device) -> None:
    assert device.run() is None
    device.live(SECONDS - 1)
    assert device.run() is None
    assert device.version == 2
    event = device.run()
    assert event is not None
    assert (event.failed.version, event.active.version) == (2, 1)
    assert event.reason == (
        "probation: the agent was started 3 times since it switched to this model, and never ran "
        "for 60 s"
    )
    assert device.version == 1
    for _ in range(MAX_COUNT + 1):
        assert device.run() is None, "the former model is in no probation"


def test_a_model_with_which_the_agent_has_lived_is_kept_whatever_comes(device: Device) -> None:
    assert device.run() is None
    device.live(SECONDS)
    assert not (device.slots.folder / PROBATION_FILE).exists()
    for _ in range(30):
        assert device.run() is None
    assert device.version == 2


def test_thirty_power_cycles_without_an_update_write_and_change_nothing(device: Device) -> None:
    device.live(SECONDS)
    before = {path.name: path.stat().st_mtime_ns for path in device.slots.folder.iterdir()}
    for _ in range(30):
        assert device.run() is None
        device.live(1.0)
    assert {p.name: p.stat().st_mtime_ns for p in device.slots.folder.iterdir()} == before
    assert device.version == 2


def test_a_probation_that_ended_counts_for_one_model_only(device: Device) -> None:
    device.live(SECONDS)
    assert isinstance(device.install(3), inputs.ModelInstalled)
    for _ in range(MAX_COUNT - 1):
        assert device.run() is None
    event = device.run()
    assert event is not None
    assert (event.failed.version, device.version) == (3, 2)


def test_the_same_model_may_be_tried_again_after_it_was_gone_back_from(device: Device) -> None:
    while device.version == 2:
        device.run()
    assert isinstance(device.install(2), inputs.ModelInstalled)
    assert device.run() is None
    assert device.version == 2


def test_a_first_model_that_ends_the_agent_leaves_none(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.install(1)
    events = [device.run() for _ in range(MAX_COUNT)]
    assert events[-1] is not None
    assert events[-1].active is None
    assert device.version is None
    assert isinstance(device.install(1), inputs.ModelInstalled)


def test_an_agent_that_ends_while_it_tests_a_model_tests_it_twice_at_most(device: Device) -> None:
    device.live(SECONDS)
    manifest = models.exported(3).manifest.digest
    for _ in range(MAX_COUNT - 1):
        device.probation.attempt(manifest)
        device.run()
    event = device.install(3)
    assert isinstance(event, inputs.ModelRefused)
    assert "the agent ended 2 times while it tested this model" in event.reason
    assert device.version == 2
    assert isinstance(device.install(3), inputs.ModelInstalled), "whoever pushes it again may"


def test_attempts_that_the_agent_outlived_do_not_count(device: Device) -> None:
    for version in (3, 4, 3, 4, 3):
        assert isinstance(device.install(version), inputs.ModelInstalled)
        assert not (device.slots.folder / ATTEMPTS_FILE).exists()


def test_a_count_that_cannot_be_read_counts_as_none(device: Device) -> None:
    (device.slots.folder / PROBATION_FILE).write_bytes(b'{"manifest": 7')
    for _ in range(MAX_COUNT + 1):
        assert device.run() is None
    assert device.version == 2


def test_a_switch_that_cannot_be_written_down_is_not_made(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path)
    (tmp_path / f"{PROBATION_FILE}.new").mkdir()
    with pytest.raises(ModelError, match=r"probation.json: cannot be written"):
        Probation(slots.folder, SECONDS).begin(making.digest("manifest"))
    assert slots.active() is None


def test_the_count_is_of_the_manifest_and_not_of_the_slot(tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path)
    probation = Probation(slots.folder, SECONDS)
    old, new = (Slot(version=n, manifest=making.digest(f"manifest {n}"), files=()) for n in (1, 2))
    slots.install(old)
    # The power goes between the word and the switch.
    probation.begin(new.manifest)
    for _ in range(MAX_COUNT + 1):
        assert probation.started(old.manifest) is None
