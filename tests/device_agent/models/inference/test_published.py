"""`current` leads to a whole folder of the active model; what nobody needs goes, not before."""

import errno
import logging
import os
import stat
from pathlib import Path

import pytest

from fleetledger.device_agent.errors import LoadError, NoModelError
from fleetledger.device_agent.models.inference.leases import current_folder, take_lease
from fleetledger.device_agent.models.inference.published import (
    PublishedModels,
    name_of,
    read_published,
)
from fleetledger.device_agent.models.slots import Slot
from tests.device_agent import model_files as models
from tests.device_agent.models.inference.homes import ServingHome

FILES = ["frozen.onnx", "head.onnx", "labels.txt", "manifest.json"]


def head_of(version: int) -> bytes:
    model = models.exported(version)
    return model.files[model.manifest.head.digest]


def names_in(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def name(version: int) -> str:
    return name_of(Slot.of(models.exported(version).manifest))


@pytest.fixture
def home(tmp_path: Path) -> ServingHome:
    return ServingHome(tmp_path / "agent-home")


def test_the_folder_holds_both_parts_the_labels_and_the_manifest(home: ServingHome) -> None:
    exported = models.exported(1)
    home.switch(exported)
    folder = home.folder / "current"
    assert names_in(folder) == FILES
    assert (folder / "labels.txt").read_text() == "dark\nlight\n"
    assert (folder / "manifest.json").read_bytes() == exported.manifest.canonical_bytes()
    assert read_published(folder.resolve()) == exported.manifest


def test_the_files_take_no_space_of_their_own_and_cannot_be_written_by_mistake(
    home: ServingHome,
) -> None:
    slot = home.switch(models.exported(1))
    for file in ("frozen.onnx", "head.onnx"):
        status = (home.folder / "current" / file).stat()
        assert status.st_nlink == 2
        assert not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    assert home.slots.active() == slot


def test_both_slots_keep_their_folders_and_going_back_moves_the_link(home: ServingHome) -> None:
    for version in (1, 2, 3):
        home.switch(models.exported(version))
    assert home.folders() == [name(2), name(3)]
    assert current_folder(home.folder).name == name(3)
    home.slots.go_back()
    home.published.follow()
    assert current_folder(home.folder).name == name(2)
    assert home.folders() == [name(2)]


def test_without_an_active_model_there_is_no_current(home: ServingHome) -> None:
    home.published.follow()
    with pytest.raises(NoModelError, match="no model is active here"):
        current_folder(home.folder)
    home.switch(models.exported(1))
    home.slots.go_back()
    home.published.follow()
    assert not os.path.lexists(home.folder / "current")


def test_a_leased_folder_stays_until_its_lease_ends(home: ServingHome) -> None:
    home.switch(models.exported(1))
    lease = take_lease(home.folder)
    for version in (2, 3, 4):
        home.switch(models.exported(version))
    assert home.folders() == [name(1), name(3), name(4)]
    assert read_published(lease.folder).version == 1
    assert names_in(lease.folder) == FILES
    lease.release()
    home.published.follow()  # without anything that changed
    assert home.folders() == [name(3), name(4)]


def test_what_a_crash_has_left_is_removed(home: ServingHome) -> None:
    home.switch(models.exported(1))
    left = home.folder / "models" / ".9-abc.new"
    left.mkdir()
    (left / "head.onnx").write_bytes(b"half")
    home.published.follow(thorough=True)
    assert home.folders() == [name(1)]


def test_a_damaged_folder_is_made_anew_when_the_agent_starts(home: ServingHome) -> None:
    home.switch(models.exported(1))
    head = home.folder / "current" / "head.onnx"
    head.unlink()
    head.write_bytes(b"rubbish")
    fresh = PublishedModels(home.folder, home.blobs, home.slots)
    fresh.follow(thorough=True)
    assert head.read_bytes() == head_of(1)
    assert home.folders() == [name(1)]


def test_a_disk_without_second_names_gets_copies(
    home: ServingHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    home.switch(models.exported(1))
    head = home.folder / "current" / "head.onnx"
    assert head.read_bytes() == head_of(1)
    assert head.stat().st_nlink == 1
    home.published.follow(thorough=True)
    assert home.folders() == [name(1)]


def test_a_disk_that_refuses_leaves_the_former_model_and_is_told_of_once(
    home: ServingHome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home.switch(models.exported(1))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(Path, "hardlink_to", refuse)
        home.switch(models.exported(2))
        home.published.follow()
    assert caplog.text.count("applications do not get this model") == 1
    assert current_folder(home.folder).name == name(1)
    models.store_model(home.blobs, models.exported(2))
    home.published.follow()
    assert current_folder(home.folder).name == name(2)


def test_a_folder_under_another_models_name_is_refused(home: ServingHome) -> None:
    home.switch(models.exported(1))
    (home.folder / "models" / name(1)).replace(home.folder / "models" / name(2))
    with pytest.raises(LoadError, match="holds another manifest"):
        read_published(home.folder / "models" / name(2))
