"""Blobs come out with the digest they were asked by, or not at all."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path

import pytest

from fleetledger.coordinator.errors import (
    BlobCorruptError,
    BlobError,
    BlobMissingError,
    BlobPrunedError,
)
from fleetledger.coordinator.ledger import folder_store
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore, prune_held
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.values import Digest
from tests.coordinator.ledger.support import LARGE, SMALL, draft

KINDS = ["folder", "file", "memory"]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    location = {
        "folder": tmp_path / "blobs",
        "file": f"file://{tmp_path}/blobs",
        "memory": f"memory://{tmp_path}/blobs",
    }[request.param]
    return BlobStore(location)


@pytest.fixture
def folder(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def test_what_was_put_is_got(store: BlobStore) -> None:
    for data in (b"", SMALL, LARGE):
        digest = store.put(data)
        assert digest == Digest.of(data)
        assert store.get(digest) == data
        assert store.has(digest)
        assert store.size(digest) == len(data)


def test_a_blob_is_read_part_by_part(store: BlobStore) -> None:
    digest = store.put(os.urandom(folder_store.PART_BYTES + 17))
    assert [len(part) for part in store.parts(digest)] == [folder_store.PART_BYTES, 17]


def test_a_missing_blob_is_named(store: BlobStore) -> None:
    digest = Digest.of(b"nothing")
    assert not store.has(digest)
    with pytest.raises(BlobMissingError, match=digest):
        store.get(digest)


def test_a_deleted_blob_is_gone_and_deleting_it_again_is_fine(store: BlobStore) -> None:
    digest = store.put(SMALL)
    store.delete(digest)
    store.delete(digest)
    assert not store.has(digest)


def test_damaged_bytes_are_refused_and_mended_by_putting_again(store: BlobStore) -> None:
    digest = store.put(SMALL)
    store.place.write(digest, [b"smell blob"])
    with pytest.raises(BlobCorruptError, match=f"digest {Digest.of(b'smell blob')}"):
        store.get(digest)
    store.put(SMALL)
    assert store.get(digest) == SMALL


def test_putting_twice_writes_once(folder: BlobStore) -> None:
    digest = folder.put(SMALL)
    path = folder.local_path(digest)
    assert path is not None
    before = path.stat().st_ino
    folder.put(SMALL)
    assert path.stat().st_ino == before


def fetched(folder: Path, data: bytes) -> tuple[Path, Digest]:
    """Return a file whose digest was checked."""
    path = folder / "fetched"
    path.write_bytes(data)
    return path, Digest.of(data)


def test_a_file_is_adopted_by_moving_it(folder: BlobStore, tmp_path: Path) -> None:
    path, digest = fetched(tmp_path, LARGE)
    before = path.stat().st_ino
    assert folder.adopt(path, digest)
    held = folder.local_path(digest)
    assert held is not None
    assert held.stat().st_ino == before
    assert folder.get(digest) == LARGE
    assert not path.exists()


def test_an_adopted_file_takes_the_place_of_a_damaged_blob_and_not_of_a_good_one(
    folder: BlobStore, tmp_path: Path
) -> None:
    path, digest = fetched(tmp_path, LARGE)
    folder.put(LARGE)
    assert folder.adopt(path, digest)
    assert path.exists()
    folder.place.write(digest, [b"damaged"])
    assert folder.adopt(path, digest)
    assert folder.get(digest) == LARGE
    assert not path.exists()


def test_what_cannot_be_moved_is_not_adopted_and_stays(
    folder: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digest = fetched(tmp_path, LARGE)

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    assert not BlobStore(f"memory://{tmp_path}/blobs").adopt(path, digest)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        assert not folder.adopt(path, digest)
    assert path.read_bytes() == LARGE
    path.unlink()
    assert not folder.adopt(path, digest)
    assert not folder.has(digest)


def test_a_disk_that_refuses_an_adopted_file_is_named(
    folder: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digest = fetched(tmp_path, LARGE)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(BlobError, match="cannot be written: Input/output error"):
        folder.adopt(path, digest)
    assert path.exists()


def test_only_a_folder_gives_paths(folder: BlobStore, tmp_path: Path) -> None:
    digest = folder.put(SMALL)
    path = folder.local_path(digest)
    assert path == tmp_path / "blobs" / digest[:2] / digest
    assert path.read_bytes() == SMALL
    assert folder.local_path(Digest.of(b"nothing")) is None
    remote = BlobStore(f"memory://{tmp_path}")
    assert remote.local_path(remote.put(SMALL)) is None


@pytest.mark.parametrize("call", ["os.fsync", "Path.replace"])
def test_a_write_that_fails_leaves_neither_blob_nor_scraps(
    folder: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    folder.put(b"first, so that the folders exist")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if call == "os.fsync":
            patch.setattr(os, "fsync", fail)
        else:
            patch.setattr(Path, "replace", fail)
        with pytest.raises(BlobError, match="cannot be written: No space left on device"):
            folder.put(SMALL)
    assert not folder.has(Digest.of(SMALL))
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []


@pytest.mark.parametrize("call", ["put", "adopt"])
def test_bytes_and_names_are_durable_before_a_call_returns(
    folder: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(handle: int) -> None:
        events.append("fsync " + str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    def note_replace(self: Path, target: Path) -> Path:
        events.append("rename")
        return replace(self, target)

    folder.put(b"first, so that the folders exist")
    path, digest = fetched(tmp_path, SMALL)
    folder.place.write(digest, [])  # makes the folder of this digest
    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    if call == "put":
        folder.put(SMALL)
    else:
        assert folder.adopt(path, digest)
    assert [event.split("/")[0].strip() for event in events] == ["fsync", "rename", "fsync"]
    assert ("/incoming/" if call == "put" else str(path)) in events[0]
    assert events[2].endswith(f"/blobs/{digest[:2]}")


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(BlobError, match="blobs: 'nonsense://x' cannot be opened"):
        BlobStore("nonsense://x")


def test_a_missing_fsspec_is_a_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(BlobError, match=re.escape(f"needs fsspec; `{pip_install('coordinator')}`")):
        BlobStore("memory://x")


def test_small_blobs_come_from_the_ledger_and_large_ones_from_the_store(
    folder: BlobStore, tmp_path: Path
) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        blobs = Blobs(ledger, folder)
        small = blobs.stage([SMALL, LARGE])
        assert small == {Digest.of(SMALL): SMALL}
        assert not blobs.has(Digest.of(SMALL))
        ledger.append([draft(0)], small)
        for data in (SMALL, LARGE):
            assert blobs.get(Digest.of(data)) == data
            assert blobs.size(Digest.of(data)) == len(data)
        assert not folder.has(Digest.of(SMALL))


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_a_pruned_blob_says_so_and_may_come_back(
    folder: BlobStore, tmp_path: Path, data: bytes
) -> None:
    digest = Digest.of(data)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        blobs = Blobs(ledger, folder)
        ledger.append([draft(0, blobs=(digest,))], blobs.stage([data]))
        prune_held(ledger, folder, [digest])
        assert not blobs.has(digest)
        with pytest.raises(BlobPrunedError, match=f"{len(data)} bytes, deleted by retention"):
            blobs.get(digest)
        ledger.append([draft(1)], blobs.stage([data]))
        assert blobs.get(digest) == data


def test_pruning_what_is_not_held_prunes_nothing(folder: BlobStore, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert prune_held(ledger, folder, [Digest.of(b"nothing")]) == 0
        assert ledger.blob(Digest.of(b"nothing")) is None
