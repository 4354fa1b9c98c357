"""The folder of content-addressed files."""

import os
from pathlib import Path

import pytest

from fleetledger.device_agent.errors import DamagedError, StoreError
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.schemas.offers import MAX_BLOCK_SIZE, BlockRequest
from fleetledger.schemas.values import Digest
from fleetledger.transport.block_source import BlockSource


def test_what_is_put_can_be_read_under_its_digest(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path / "blobs")
    digest = blobs.put(b"weights")
    assert digest == Digest.of(b"weights")
    assert blobs.read(digest) == b"weights"
    assert blobs.digests() == {digest}


def test_a_damaged_file_is_named_and_removed(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path)
    digest = blobs.put(b"weights")
    blobs.path(digest).write_bytes(b"weighs")
    with pytest.raises(DamagedError, match=digest.short):
        blobs.check(digest)
    assert blobs.digests() == frozenset()


def test_what_is_offered_lies_on_the_disk_and_is_served_as_it_was_offered(tmp_path: Path) -> None:
    blobs, data = BlobFolder(tmp_path), bytes(range(256)) * 1000
    offer = blobs.offer(data)
    assert offer == BlockSource(data).offer
    assert blobs.read(offer.digest) == data
    assert blobs.source(offer).offer == offer


def test_what_is_offered_is_cut_as_the_folder_says_and_served_so_by_a_later_run(
    tmp_path: Path,
) -> None:
    data = bytes(range(256)) * 5000
    offer = BlobFolder(tmp_path, block_size=MAX_BLOCK_SIZE).offer(data)
    assert (offer.block_size, offer.block_count) == (MAX_BLOCK_SIZE, 5)
    # A device whose program was updated meanwhile cuts what it offers from now on in another way.
    later = BlobFolder(tmp_path).source(offer)
    asked = BlockRequest(
        digest=offer.digest, block_size=MAX_BLOCK_SIZE, section="data", indices=(0, 1, 2, 3, 4)
    )
    assert b"".join(block for _, block in later.answer(asked)) == data


def test_what_was_just_offered_is_not_hashed_again_to_be_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, data = BlobFolder(tmp_path), bytes(range(256)) * 1000
    offer = blobs.offer(data)
    with monkeypatch.context() as patch:
        patch.setattr(BlockSource, "offered", lambda *_: pytest.fail("hashed again"))
        source = blobs.source(offer)
    wanted = BlockRequest(
        digest=offer.digest, block_size=offer.block_size, section="data", indices=(0, 3)
    )
    assert [block for _, block in source.answer(wanted)] == [data[:65536], data[3 * 65536 :]]
    assert BlobFolder(tmp_path).source(offer).offer == offer


@pytest.mark.parametrize("damage", ["other bytes", "a link", "another block of the list"])
def test_what_is_not_what_was_offered_is_not_served(tmp_path: Path, damage: str) -> None:
    blobs, data = BlobFolder(tmp_path / "blobs"), bytes(range(256)) * 1000
    offer = blobs.offer(data)
    path = blobs.path(offer.digest)
    match damage:
        case "other bytes":
            path.write_bytes(data[:-1] + b"?")
            os.utime(path, ns=(0, 0))  # later, by the clock of a file system with few ticks
        case "a link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case _:
            path.write_bytes(data[:-65536])
    with pytest.raises(DamagedError, match=offer.digest.short):
        blobs.source(offer)
    assert blobs.digests() == frozenset()


def test_a_missing_file_counts_as_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="cannot be read"):
        BlobFolder(tmp_path).check(Digest.of(b"never seen"))


def test_cleaning_keeps_what_is_named_and_its_part_file(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path)
    kept, gone = blobs.put(b"kept"), blobs.put(b"gone")
    for digest in (kept, gone):
        (tmp_path / f"{digest}.part").write_bytes(b"half")
    assert blobs.clean({kept}) == {kept}
    assert {item.name for item in tmp_path.iterdir()} == {kept, f"{kept}.part"}


def test_a_full_disk_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_):
        raise OSError(28, "No space left on device")

    blobs = BlobFolder(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="7 bytes cannot be written: No space left"):
        blobs.put(b"payload")
    with pytest.raises(StoreError, match="cannot be made: No space left"):
        BlobFolder(tmp_path / "other")
