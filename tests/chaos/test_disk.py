"""The model of the disk catches writers that forget to sync, and lets durable ones pass."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from fleetledger.device_agent.home.store.blobs import sync_folder, write_durably
from tests.chaos.cutting import CutError, Scissors, cuts
from tests.chaos.disk import Disk, Drive
from tests.chaos.volume import Volume, torn

OLD, NEW = b"old" * 400, b"new and longer" * 200


def old_file(root: Path) -> None:
    (root / "file").write_bytes(OLD)


def contents(folder: Path, work, **options) -> set[bytes | None]:
    """What may stand under the name after a cut; None for nothing at all."""
    found = set()
    for root in cuts(folder, old_file, work, **options):
        path = root / "file"
        found.add(path.read_bytes() if path.exists() else None)
    return found


def test_a_writer_that_overwrites_in_place_is_caught(tmp_path: Path) -> None:
    def in_place(root: Path) -> None:
        (root / "file").write_bytes(NEW)

    assert contents(tmp_path, in_place) - {OLD, NEW}


def test_a_writer_that_renames_without_syncing_the_bytes_is_caught(tmp_path: Path) -> None:
    def renaming(root: Path) -> None:
        (root / "file.new").write_bytes(NEW)
        (root / "file.new").replace(root / "file")
        sync_folder(root)

    found = contents(tmp_path, renaming)
    assert found - {OLD, NEW}
    assert any(content is not None and len(content) < len(NEW) for content in found - {OLD, NEW})


def test_a_writer_that_does_not_sync_the_folder_may_lose_the_new_name(tmp_path: Path) -> None:
    finished = []

    def unsynced(root: Path) -> None:
        with (root / "file.new").open("wb") as file:
            file.write(NEW)
            file.flush()
            os.fsync(file.fileno())
        (root / "file.new").replace(root / "file")
        finished.append(root)

    lost = [
        root
        for root in cuts(tmp_path, old_file, unsynced)
        if root in finished and (root / "file").read_bytes() == OLD
    ]
    assert lost, "the work had ended, and the file is the old one again"


def test_durable_writing_leaves_the_old_or_the_new_file_and_keeps_the_new_one(
    tmp_path: Path,
) -> None:
    finished = []

    def durable(root: Path) -> None:
        write_durably(root / "file", NEW)
        finished.append(root)

    for root in cuts(tmp_path, old_file, durable):
        found = (root / "file").read_bytes()
        assert found in (OLD, NEW)
        assert found == NEW or root not in finished


def test_a_killed_program_loses_only_what_the_kernel_did_not_have(tmp_path: Path) -> None:
    def renaming(root: Path) -> None:
        (root / "file.new").write_bytes(NEW)
        (root / "file.new").replace(root / "file")

    assert contents(tmp_path, renaming, power_cut=False) == {OLD, NEW}


def test_what_a_killed_program_left_unsynced_may_go_with_a_later_power_cut(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    old_file(tmp_path / "root")
    found = set()
    for seed in range(20):
        drive = Drive(
            Volume(tmp_path / "root", tmp_path / "shadow", Random(seed)), Scissors(99).point
        )
        with Disk([drive]) as disk:
            (tmp_path / "root" / "file").write_bytes(NEW)
            disk.crash(drive, power_cut=False)
            assert (tmp_path / "root" / "file").read_bytes() == NEW
            disk.crash(drive, power_cut=True)
        found.add((tmp_path / "root" / "file").read_bytes())
        old_file(tmp_path / "root")
    assert OLD in found
    assert len(found) > 2


def test_a_removed_file_may_come_back_until_its_folder_is_synced(tmp_path: Path) -> None:
    def removing(root: Path) -> None:
        (root / "file").unlink()

    assert contents(tmp_path, removing) == {OLD, None}

    def removing_for_good(root: Path) -> None:
        removing(root)
        sync_folder(root)
        finished.append(root)

    finished: list[Path] = []
    kept = cuts(tmp_path, old_file, removing_for_good)
    assert not [root for root in kept if root in finished and (root / "file").exists()]


def test_a_folder_whose_name_is_not_durable_may_vanish_with_what_is_in_it(tmp_path: Path) -> None:
    finished = []

    def work(root: Path) -> None:
        (root / "folder").mkdir()
        write_durably(root / "folder" / "file", NEW)
        finished.append(root)

    roots = cuts(tmp_path, lambda _: None, work)
    left = {(root / "folder" / "file").exists() for root in roots if root in finished}
    assert left == {True, False}


def test_a_folder_that_holds_a_database_stays(tmp_path: Path) -> None:
    finished = []

    def work(root: Path) -> None:
        (root / "folder").mkdir()
        sqlite3.connect(root / "folder" / "agent.db").execute("CREATE TABLE one (two)")
        finished.append(root)

    for root in cuts(tmp_path, lambda _: None, work):
        assert root not in finished or (root / "folder" / "agent.db").exists()


def test_a_database_whose_file_was_made_beforehand_keeps_what_it_committed(tmp_path: Path) -> None:
    finished = []

    def work(root: Path) -> None:
        path = root / "own.db"
        path.touch(mode=0o600)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE one (two)")
        finished.append(root)

    for root in cuts(tmp_path, lambda _: None, work):
        if root in finished:
            with closing(sqlite3.connect(root / "own.db")) as database:
                assert database.execute("SELECT * FROM one").fetchall() == []


def test_files_outside_of_the_roots_are_no_crash_points(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    scissors = Scissors(0)
    drive = Drive(Volume(tmp_path / "root", tmp_path / "shadow", Random(0)), scissors.point)
    with Disk([drive]):
        write_durably(tmp_path / "elsewhere", NEW)
        with pytest.raises(CutError):
            write_durably(tmp_path / "root" / "file", NEW)
    write_durably(tmp_path / "root" / "file", NEW)


def test_torn_bytes_are_old_or_new_or_something_between() -> None:
    results = {torn(OLD, NEW, Random(seed)) for seed in range(200)}
    assert {OLD, NEW} <= results
    assert len(results) > 50
    assert any(result.endswith(bytes(8)) for result in results), "zeros at the end"
    assert all(len(result) <= len(NEW) for result in results)
