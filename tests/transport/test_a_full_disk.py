"""A disk that fills while blocks come: that transfer fails in words, and the exchange lives on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.errors import FullDiskError
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.part_file import PartFile
from tests.small_disk import SmallDisk, small_disk
from tests.transport.test_transfer import Fleet, data_of
from tests.transport.worlds import PATIENCE, A

SIZE = 200_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 1) as small:
        yield small


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    broker = InMemoryBroker(max_queued=10_000)
    made = Fleet(lambda user: broker.connection(f"{user}.data"))
    yield made
    made.stop()


@pytest.mark.parametrize("reserves", [True, False])
def test_what_a_full_disk_refused_is_fetched_once_there_is_room(
    disk: SmallDisk, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, reserves: bool
) -> None:
    """Some file systems reserve no space; there the disk is full in the middle of the blocks."""
    if not reserves:
        monkeypatch.setattr(os, "posix_fallocate", lambda *_: None)
    coordinator, device = fleet.exchange(), fleet.exchange(A)
    failures: list[Exception] = []
    device.on_failure = failures.append
    data = data_of(SIZE)
    offer = coordinator.serve(data)
    disk.fill(but=SIZE // 2)

    def fetched() -> Future[Path]:
        return device.fetch(offer, disk.folder / "blobs" / "model", A, seconds=PATIENCE)

    for _ in range(3):
        with pytest.raises(FullDiskError, match="No space left"):
            fetched().result(PATIENCE)
    assert failures == []
    disk.empty()
    assert fetched().result(PATIENCE).read_bytes() == data


def test_a_part_file_that_finds_no_room_takes_none(disk: SmallDisk) -> None:
    offer = BlockSource(data_of(SIZE)).offer
    disk.fill(but=SIZE // 2)
    free = os.statvfs(disk.folder).f_bfree
    with pytest.raises(OSError, match="No space left"):
        PartFile(offer, disk.folder / "model")
    assert os.statvfs(disk.folder).f_bfree == free
    assert not (disk.folder / "model.part").exists()


def test_a_part_file_is_closed_after_the_disk_refused_it(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: None)
    part = PartFile(BlockSource(data_of(SIZE)).offer, disk.folder / "model")
    disk.fill()
    with pytest.raises(OSError, match="No space left"):
        part.write(0, bytes(4096))
    part.close()
    part.close()
