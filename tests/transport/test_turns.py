"""A block exchange whose turns somebody else takes, on a clock that is given."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest

from fleetledger.schemas.envelope import COORDINATOR, Sender, encode
from fleetledger.schemas.offers import BlockRequest
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.clock import Clock
from fleetledger.transport.errors import BlockError, NotWantedError
from fleetledger.transport.interface import OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.transfer import BlockExchange

DEVICE = DeviceId("stepped")
TOPICS = FleetTopics(FleetId("turns"))


class Hands:
    """A clock set by hand, and two exchanges that take turns by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self._broker = InMemoryBroker()
        self.giving, self.taking = self._exchange(COORDINATOR, None), self._exchange(DEVICE, DEVICE)

    def _exchange(self, name: DeviceId, device: DeviceId | None) -> BlockExchange:
        clock = Clock(lambda: self.now, lambda: round(self.now * 1e9), lambda _: None)
        made = BlockExchange(
            self._broker.connection(name),
            TOPICS,
            Sender(TOPICS.fleet, name, BootId.fresh()),
            device=device,
            clock=clock,
        )
        made.begin()
        return made

    def turns(self, number: int) -> None:
        for _ in range(number):
            self.giving.turn(0)
            self.taking.turn(0)


def test_a_file_crosses_without_a_thread_and_without_time(tmp_path: Path) -> None:
    hands, source = Hands(), BlockSource(b"block" * 100_000)
    hands.giving.serve(source)
    assert hands.taking.due() == math.inf
    future = hands.taking.fetch(source.offer, tmp_path / "file", DEVICE, seconds=10)
    assert hands.taking.due() == hands.now
    hands.turns(20)
    assert future.result(0).read_bytes() == b"block" * 100_000
    assert hands.taking.due() == math.inf
    assert hands.taking.traffic().bytes_down > 500_000


def test_what_nobody_answers_is_due_again_and_ends_at_its_deadline(tmp_path: Path) -> None:
    hands, source = Hands(), BlockSource(b"nobody serves this")
    future = hands.taking.fetch(source.offer, tmp_path / "file", DEVICE, seconds=10)
    for _ in range(3):
        hands.taking.turn(0)
    again = hands.taking.due()
    assert 100 < again < 110
    while not future.done():
        hands.now = hands.taking.due()
        hands.taking.turn(0)
    assert hands.now == 110.0
    with pytest.raises(BlockError, match=r"missing after 10.0 s"):
        future.result(0)


def test_an_exchange_knows_what_it_serves() -> None:
    exchange = Hands().giving
    first, second = (exchange.serve(data) for data in (b"one", b"two"))
    assert exchange.source(first.digest) is not None
    exchange.withdraw_all_but({second.digest})
    assert exchange.source(first.digest) is None
    assert exchange.source(second.digest) is not None


def test_what_is_not_served_is_refused_in_words_at_once(tmp_path: Path) -> None:
    hands, source = Hands(), BlockSource(b"served no more")
    future = hands.taking.fetch(source.offer, tmp_path / "file", DEVICE, seconds=600)
    hands.turns(3)
    assert hands.now == 100.0
    with pytest.raises(BlockError, match=r"refused: .* is not served to stepped"):
        future.result(0)
    assert hands.taking.due() == math.inf


def test_what_is_not_needed_any_more_makes_room_at_once(tmp_path: Path) -> None:
    hands = Hands()
    old, new = BlockSource(b"old" * 100_000), BlockSource(b"new" * 1000)
    hands.giving.serve(new)
    former = hands.taking.fetch(old.offer, tmp_path / "old", DEVICE, seconds=600)
    hands.taking.turn(0)
    hands.taking.cancel(old.offer.digest)
    wanted = hands.taking.fetch(new.offer, tmp_path / "new", DEVICE, seconds=600)
    hands.taking.turn(0)
    hands.turns(10)
    with pytest.raises(NotWantedError, match="not needed any more"):
        former.result(0)
    assert wanted.result(0).read_bytes() == b"new" * 1000


def test_a_request_with_a_long_header_is_refused_unread(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "transport.blocks")
    hands, source = Hands(), BlockSource(b"block" * 100_000)
    hands.giving.serve(source)
    request = BlockRequest(
        digest=source.offer.digest, block_size=65_536, section="data", indices=tuple(range(64))
    )
    sender = Sender(TOPICS.fleet, DEVICE, BootId.fresh())
    asked = encode(sender.seal(request, sent_ms=1_800_000_000_000))
    assert len(asked) < 2048
    long = asked.replace(b'"boot"', b'"boat":"' + b"x" * 4096 + b'","boot"')
    sender_of = hands.taking.connection
    sender_of.publish(OutgoingMessage(str(TOPICS.up(DEVICE, "req")), long, qos=0))
    hands.turns(2)
    assert hands.giving.refused_messages == 1
    assert "4096" in caplog.text
    sender_of.publish(OutgoingMessage(str(TOPICS.up(DEVICE, "req")), asked, qos=0))
    hands.turns(2)
    assert hands.giving.refused_messages == 1


def test_what_is_called_off_and_wanted_again_is_fetched(tmp_path: Path) -> None:
    hands, source = Hands(), BlockSource(b"wanted again")
    hands.giving.serve(source)
    hands.taking.fetch(source.offer, tmp_path / "file", DEVICE, seconds=600)
    hands.taking.cancel(source.offer.digest)
    again = hands.taking.fetch(source.offer, tmp_path / "file", DEVICE, seconds=600)
    hands.turns(10)
    assert again.result(0).read_bytes() == b"wanted again"
