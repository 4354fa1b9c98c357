"""Who offers data and serves none of it keeps no place from others; all by a clock set by hand."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future
from pathlib import Path

import pytest

from fleetledger.schemas.offers import BlockData, BlockRefusal, BlockRequest
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.errors import BlockError, NotWantedError, StalledError
from fleetledger.transport.fetches import Fetch, Fetches

HONEST, SILENT = DeviceId("honest"), DeviceId("silent")
PATIENCE = 15.0


class Table:
    """Transfers from devices that answer at once, or never."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.folder = folder
        self.fetches = Fetches(PATIENCE)
        self.fetches.reconnected(0.0)
        self.sources: dict[tuple[DeviceId, str], BlockSource] = {}
        self.asked: dict[DeviceId, BlockRequest] = {}
        """What every device was asked for last."""
        self.speaking = {HONEST}
        self._number = 0

    def fetch(self, peer: DeviceId, seconds: float = 600.0, size: int = 300) -> Future[Path]:
        self._number += 1
        seed = hashlib.sha256(str(self._number).encode()).digest()
        source = BlockSource((seed * (size // len(seed) + 1))[:size], 4096)
        self.sources[peer, source.offer.digest] = source
        path = self.folder / source.offer.digest
        wanted = Fetch(source.offer, path, peer, self.now + seconds)
        self.fetches.add(wanted)
        return wanted.future

    def turn(self) -> None:
        """Ask, and let every honest device answer all of it."""
        while asked := list(self.fetches.requests(self.now)):
            for peer, request in asked:
                self.asked[peer] = request
                if self.speaks(peer):
                    self.answer(peer)
            if not any(self.speaks(peer) for peer, _ in asked):
                return

    def speaks(self, peer: DeviceId) -> bool:
        return peer in self.speaking or peer.startswith("honest-")

    def answer(self, peer: DeviceId) -> None:
        request = self.asked[peer]
        for label, block in self.sources[peer, request.digest].answer(request):
            assert isinstance(label, BlockData)
            self.fetches.deliver(peer, label, block, self.now)

    def run(self, until: float) -> None:
        while self.now < until:
            self.turn()
            self.now = max(self.now + 1e-3, min(self.fetches.next_time(self.now), until))
        self.turn()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def reason(future: Future[Path], error: type[BlockError] = BlockError) -> str:
    with pytest.raises(error) as caught:
        future.result(0)
    return str(caught.value)


@pytest.mark.parametrize("silent", [1, 5, 15])
def test_devices_that_serve_nothing_cost_the_others_no_time(table: Table, silent: int) -> None:
    for number in range(silent):
        for _ in range(4):
            table.fetch(DeviceId(f"silent-{number}"))
    table.turn()
    honest = [table.fetch(DeviceId(f"honest-{number}")) for number in range(20)]
    table.turn()
    assert all(future.done() for future in honest)
    assert table.now == 0.0


def test_more_silent_devices_than_places_cost_the_others_the_patience_once(table: Table) -> None:
    for number in range(40):
        for _ in range(4):
            table.fetch(DeviceId(f"silent-{number}"))
    table.turn()
    honest = table.fetch(HONEST)
    table.run(PATIENCE + 0.1)
    assert honest.done()


def test_a_transfer_without_a_block_ends_and_the_next_one_waits_longer_each_time(
    table: Table,
) -> None:
    ends = []
    for _ in range(4):
        future = table.fetch(SILENT)
        began = table.now
        while not future.done():
            table.run(table.now + 1.0)
        ends.append(table.now - began)
        assert "no block came for 15 s" in reason(future, StalledError)
    assert ends == pytest.approx([15, 15 + 15, 30 + 15, 60 + 15], abs=2.0)
    assert "4 in a row from silent, whose next one waits 60 s" in reason(future)


def test_a_transfer_that_succeeds_ends_the_pauses(table: Table) -> None:
    first = table.fetch(SILENT)
    table.run(PATIENCE + 1)
    assert "1 in a row" in reason(first)
    table.speaking.add(SILENT)
    later = table.fetch(SILENT)
    table.run(table.now + PATIENCE + 1)
    assert later.done()
    assert later.exception() is None
    table.speaking.remove(SILENT)
    again = table.fetch(SILENT)
    began = table.now
    while not again.done():
        table.run(table.now + 1.0)
    assert "1 in a row" in reason(again)
    assert table.now - began == pytest.approx(PATIENCE, abs=2.0)


def test_time_without_a_connection_is_nobody_s_silence(table: Table) -> None:
    future = table.fetch(SILENT)
    table.run(10.0)
    table.fetches.disconnected()
    table.run(100.0)
    assert not future.done()
    table.fetches.reconnected(table.now)
    table.run(114.0)
    assert not future.done()
    table.run(116.0)
    assert "no block came" in reason(future)


def test_a_slow_device_is_not_a_silent_one(table: Table) -> None:
    future = table.fetch(SILENT, size=20_000)
    while not future.done():
        table.run(table.now + PATIENCE - 2.0)
        table.answer(SILENT)
        assert table.now < 1000
    assert future.exception() is None
    assert table.now > PATIENCE


def test_who_has_nothing_under_way_comes_before_who_has(table: Table) -> None:
    for number in range(16):
        table.fetch(DeviceId(f"silent-{number}"))
        table.fetch(DeviceId(f"silent-{number}"))
    table.turn()
    greedy = [table.fetch(DeviceId("silent-0")) for _ in range(10)]
    newcomer = table.fetch(HONEST)
    table.run(PATIENCE + 0.1)
    assert newcomer.exception(0) is None
    assert all("1 in a row" in reason(future, StalledError) for future in greedy)


def test_a_peer_can_fill_no_more_than_its_own_part_of_the_queue(table: Table) -> None:
    futures = [table.fetch(SILENT) for _ in range(100)]
    assert sum(future.done() for future in futures) == 36
    assert "64 transfers of silent wait already" in reason(futures[-1])
    assert not table.fetch(HONEST).done()


def test_what_a_peer_does_not_serve_ends_at_once_and_nothing_of_others(table: Table) -> None:
    refused, other = table.fetch(SILENT), table.fetch(DeviceId("silent-2"))
    table.turn()
    ((_, digest), _) = table.sources
    refusal = BlockRefusal(digest=table.sources[SILENT, digest].offer.digest, reason="gone")
    table.fetches.refuse(DeviceId("silent-2"), refusal, 0.0)
    assert not refused.done()
    table.fetches.refuse(SILENT, refusal, 0.0)
    assert "refused: gone" in reason(refused)
    assert not other.done()


def test_what_is_not_needed_ends_whether_it_waits_or_is_under_way(table: Table) -> None:
    futures = [table.fetch(SILENT) for _ in range(3)]
    table.turn()
    for source in list(table.sources.values()):
        table.fetches.cancel(source.offer.digest, 0.0)
    assert all("not needed any more" in reason(future, NotWantedError) for future in futures)
    assert table.fetches.next_time(0.0) == float("inf")


def test_a_device_that_was_away_waits_for_one_pause_however_much_it_had_offered(
    table: Table,
) -> None:
    for _ in range(20):
        table.fetch(SILENT)
    table.run(100.0)
    table.speaking.add(SILENT)
    again = table.fetch(SILENT)
    table.turn()
    assert again.exception(0) is None
