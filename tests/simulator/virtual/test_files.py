"""Files that many devices fetch cost each of them what they would have cost it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fleetledger.schemas.envelope import COORDINATOR, Sender
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.simulator.virtual.exchange import VirtualExchange
from fleetledger.simulator.virtual.files import BlobCache, SharedFiles, SharingExchange
from fleetledger.simulator.virtual.world import VirtualWorld
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.transfer import Party

TOPICS = FleetTopics(FleetId("files"))
BOOT = BootId("1" * 16)
LATENCY = 0.02


def party(name: str) -> Party:
    device = None if name == COORDINATOR else DeviceId(name)
    return Party(TOPICS, Sender(TOPICS.fleet, DeviceId(name), BOOT), device)


class Fleet:
    """A coordinator's exchange that serves, and devices that share what they fetch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = VirtualWorld.made(3, LATENCY)
        self.giving = VirtualExchange(self.world, party(COORDINATOR))
        self.giving.begin()
        self.files = SharedFiles(
            BlobCache(folder / "files", TOPICS, LATENCY, self.giving.source), self.world.loop
        )

    def fetch(
        self, exchange: VirtualExchange | SharingExchange, name: str, source: BlockSource
    ) -> Path:
        target = self.folder / name / source.offer.digest
        target.parent.mkdir()
        future = exchange.fetch(source.offer, target, DeviceId(name), seconds=60)
        if isinstance(exchange, SharingExchange):
            self.world.loop.at(
                exchange.next_arrival(),
                lambda: exchange.receive(DeviceId(name), self.world.now),
            )
        self.world.run(future.done, lambda: 60.0)
        return future.result(0)

    def sharing(self, name: str) -> SharingExchange:
        return SharingExchange(self.world, party(name), self.files)


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
def test_a_shared_fetch_counts_what_a_real_one_counts(tmp_path: Path, size: int) -> None:
    fleet = Fleet(tmp_path)
    source = BlockSource(random.Random(1).randbytes(size))
    fleet.giving.serve(source)
    real = VirtualExchange(fleet.world, party("real"))
    real.begin()
    began = fleet.world.now
    fleet.fetch(real, "real", source)
    seconds = fleet.world.now - began
    for name in ("first", "a-longer-name"):
        exchange = fleet.sharing(name)
        began = fleet.world.now
        path = fleet.fetch(exchange, name, source)
        assert path.stat().st_size == size
        assert fleet.world.now - began == pytest.approx(seconds, rel=0.5)
        ours, theirs = exchange.traffic(), real.traffic()
        longer = (len(name) - len("real")) * theirs.messages_up
        # How many blocks a request names depends on the latencies that were drawn.
        up, allowed = theirs.bytes_up + longer, 0.25 if size > 1e6 else 0.0
        assert ours.bytes_up == pytest.approx(up, rel=allowed, abs=8)
        assert ours.bytes_down == pytest.approx(theirs.bytes_down, abs=20)
        assert ours.messages_down == theirs.messages_down


def test_devices_share_one_copy(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    source = BlockSource(b"model" * 1000)
    fleet.giving.serve(source)
    paths = [fleet.fetch(fleet.sharing(name), name, source) for name in ("one", "two")]
    shared = fleet.files.folder / source.offer.digest
    assert {path.stat().st_ino for path in paths} == {shared.stat().st_ino}


def test_what_nobody_serves_is_asked_for_over_the_network(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    source, exchange = BlockSource(b"gone"), fleet.sharing("one")
    future = exchange.fetch(source.offer, tmp_path / "gone", DeviceId("one"), seconds=5)
    fleet.world.run(future.done, lambda: 60.0)
    assert "not served" in str(future.exception(0))
    assert exchange.traffic().messages_up >= 1
