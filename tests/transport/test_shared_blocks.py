"""Blocks that several devices fetch at the same time go once to all of them."""

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.schemas.envelope import COORDINATOR, Sender
from fleetledger.schemas.offers import BlockData, BlockRequest, Offer
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId
from fleetledger.transport.block_receiver import (
    LONGEST_LAG_SECONDS,
    BlockReceiver,
    FetchedFile,
)
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.clock import Clock
from fleetledger.transport.faults import Faults
from fleetledger.transport.interface import Connection, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.meter import Counts
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.shared_blocks import Audience, BlockRun
from fleetledger.transport.transfer import BlockExchange
from tests.transport.relay import Relay
from tests.transport.worlds import PATIENCE

TOPICS = FleetTopics(FleetId("many"))
BLOCK = 64 * 1024
SIZE = 160 * BLOCK
MODEL = random.Random(1).randbytes(SIZE)
DEVICES = tuple(DeviceId(f"dev-{number}") for number in range(5))
A, B, C = DEVICES[:3]


class DeafBroker(InMemoryBroker):
    """Carries nothing on the topic for all, as one whose access rules do not know it."""

    def route(self, message: OutgoingMessage, user: str | None) -> bool:
        return "/all/blk/" in message.topic or super().route(message, user)


class Hands:
    """A coordinator and devices that take turns by hand, on a clock that is set by hand."""

    def __init__(self, broker: InMemoryBroker | None = None, **options: object) -> None:
        self.now = 100.0
        self.broker = broker or InMemoryBroker(max_queued=10_000)
        self.coordinator = self._exchange(COORDINATOR, None, **options)
        self.devices = {name: self._exchange(name, name) for name in DEVICES}
        self.offer = self.coordinator.serve(BlockSource(MODEL, BLOCK))

    def _exchange(
        self, name: DeviceId, device: DeviceId | None, **options: object
    ) -> BlockExchange:
        made = BlockExchange(
            self.broker.connection(name),
            TOPICS,
            Sender(TOPICS.fleet, name, BootId.fresh()),
            device=device,
            clock=Clock(lambda: self.now, lambda: round(self.now * 1e9), lambda _: None),
            **options,  # type: ignore[arg-type] # tests pass what the class takes
        )
        made.begin()
        return made

    def fetch(self, folder: Path, *names: DeviceId) -> dict[DeviceId, Path]:
        paths = {name: folder / name for name in names}
        for name, path in paths.items():
            self.devices[name].fetch(self.offer, path, name, seconds=600)
        return paths

    def turn(self, *names: DeviceId) -> None:
        for name in names:
            self.devices[name].turn(0)
        self.coordinator.turn(0)
        self.now += 0.001

    def until_whole(self, paths: dict[DeviceId, Path], limit: int = 20_000) -> None:
        for _ in range(limit):
            if all(path.exists() for path in paths.values()):
                return
            self.turn(*paths)
            due = min(self.devices[name].due() for name in paths)
            waiting = any(self.broker.waiting(name) for name in (*paths, COORDINATOR))
            if not waiting and self.now < due < math.inf and self.coordinator.due() > self.now:
                self.now = due
        raise AssertionError("they do not end")

    def sent(self, kind: str) -> Counts:
        return self.coordinator.connection.meter.by_class().get(kind, Counts())

    def got(self, name: DeviceId) -> Counts:
        return self.devices[name].connection.meter.total()


@pytest.fixture
def hands() -> Hands:
    return Hands()


def are_right(paths: dict[DeviceId, Path]) -> bool:
    return all(path.read_bytes() == MODEL for path in paths.values())


def test_what_all_fetch_at_once_is_sent_once(hands: Hands, tmp_path: Path) -> None:
    paths = hands.fetch(tmp_path, *DEVICES)
    hands.until_whole(paths)

    assert are_right(paths)
    assert SIZE <= hands.sent("all/blk").bytes_up < 1.1 * SIZE
    assert hands.sent("down/blk").bytes_up < 0.2 * SIZE
    for name in DEVICES:
        assert hands.got(name).bytes_down < 1.3 * SIZE


def test_whoever_has_the_file_leaves_the_topic(hands: Hands, tmp_path: Path) -> None:
    hands.until_whole(hands.fetch(tmp_path, *DEVICES))
    for _ in range(3):
        hands.turn(*DEVICES)
    before = {name: hands.got(name) for name in DEVICES}

    topic = TOPICS.shared_blocks(hands.offer.digest)
    hands.broker.route(OutgoingMessage(topic, b"for those who listen", qos=0), COORDINATOR)
    hands.turn(*DEVICES)

    assert {name: hands.got(name) for name in DEVICES} == before


def test_one_device_alone_has_its_own_topic(hands: Hands, tmp_path: Path) -> None:
    paths = hands.fetch(tmp_path, A)
    hands.until_whole(paths)

    assert are_right(paths)
    assert hands.sent("all/blk") == Counts()
    assert hands.got(A).bytes_down < 1.1 * SIZE


def test_a_late_comer_shares_the_rest_and_gets_the_beginning_alone(
    hands: Hands, tmp_path: Path
) -> None:
    early = hands.fetch(tmp_path, A)
    while hands.got(A).bytes_down < SIZE // 10:
        hands.turn(A)
    alone = hands.sent("down/blk").bytes_up

    late = hands.fetch(tmp_path, B)
    hands.until_whole(early | late)

    assert are_right(early | late)
    shared = hands.sent("all/blk").bytes_up
    assert 0.3 * SIZE < shared < 1.1 * (SIZE - alone)
    assert hands.sent("down/blk").bytes_up + shared < 1.8 * SIZE
    for name in (A, B):
        assert hands.got(name).bytes_down < 1.35 * SIZE


def test_a_device_that_has_some_blocks_is_sent_the_others(hands: Hands, tmp_path: Path) -> None:
    half = MODEL[: SIZE // 2]
    (tmp_path / f"{B}.part").write_bytes(half + bytes(SIZE - len(half)))

    paths = hands.fetch(tmp_path, A, B)
    hands.until_whole(paths)

    assert are_right(paths)
    assert hands.got(B).bytes_down < 0.75 * SIZE


@pytest.mark.parametrize("seed", range(3))
def test_loss_repetition_and_disorder_do_no_harm(tmp_path: Path, seed: int) -> None:
    faults = Faults(seed=seed, drop=0.05, duplicate=0.1, reorder=0.3)
    hands = Hands(InMemoryBroker(max_queued=10_000, faults=faults))
    paths = hands.fetch(tmp_path, *DEVICES)
    hands.until_whole(paths)

    assert are_right(paths)


def test_a_lost_session_is_made_up_for(hands: Hands, tmp_path: Path) -> None:
    paths = hands.fetch(tmp_path, *DEVICES)
    while hands.got(A).bytes_down < SIZE // 4:
        hands.turn(*DEVICES)
    hands.broker.restart()
    hands.until_whole(paths)

    assert are_right(paths)
    assert hands.sent("all/blk").bytes_up < 1.5 * SIZE


def test_a_device_that_stands_still_stops_nobody_and_has_all_in_the_end(
    hands: Hands, tmp_path: Path
) -> None:
    paths = hands.fetch(tmp_path, *DEVICES)
    while not hands.got(A).bytes_down > 10 * BLOCK:
        hands.turn(*DEVICES)
    quick = {name: path for name, path in paths.items() if name != A}
    hands.until_whole(quick)
    assert not paths[A].exists()
    sent = hands.sent("all/blk") + hands.sent("down/blk")

    hands.until_whole({A: paths[A]})

    assert are_right(paths)
    again = hands.sent("all/blk") + hands.sent("down/blk") - sent
    assert again.bytes_up < 0.2 * SIZE  # what was sent to all waits for it at the broker


def test_what_the_broker_dropped_for_a_device_that_stood_still_comes_again(
    tmp_path: Path,
) -> None:
    hands = Hands(InMemoryBroker(max_queued=10))
    paths = hands.fetch(tmp_path, A, B)
    while not hands.got(A).bytes_down > 10 * BLOCK:
        hands.turn(A, B)
    hands.until_whole({B: paths[B]})
    assert hands.broker.dropped > 0

    hands.until_whole({A: paths[A]})

    assert are_right(paths)


def test_where_the_topic_for_all_is_dumb_the_own_one_is_taken(tmp_path: Path) -> None:
    hands = Hands(DeafBroker(max_queued=10_000))
    began = hands.now
    paths = hands.fetch(tmp_path, A, B)
    hands.until_whole(paths)

    assert are_right(paths)
    assert hands.now - began < 10


def test_what_is_not_for_everybody_is_not_sent_to_all(tmp_path: Path) -> None:
    hands = Hands(may_serve=lambda peer, digest: peer in (A, B))
    paths = hands.fetch(tmp_path, A, B)
    hands.until_whole(paths)

    assert are_right(paths)
    assert hands.sent("all/blk") == Counts()


def listening_receiver(folder: Path, source: BlockSource) -> BlockReceiver:
    """Return one that has the list of blocks and has asked for the first of them."""
    receiver = BlockReceiver(source.offer, folder / "data", now=0, deadline=600)
    receiver.share()
    for request in receiver.requests(0.0):
        for label, block in source.answer(request):
            receiver.receive(label, block, 0.1)
    assert receiver.requests(0.1)
    return receiver


def messages_of(source: BlockSource, offer: Offer) -> Iterator[tuple[BlockData, bytes]]:
    for index in range(offer.block_count):
        asked = BlockRequest(
            digest=offer.digest, block_size=offer.block_size, section="data", indices=(index,)
        )
        yield from source.answer(asked)


@pytest.mark.parametrize(
    ("lag", "listens"), [(LONGEST_LAG_SECONDS - 0.1, True), (LONGEST_LAG_SECONDS + 0.1, False)]
)
def test_a_device_for_which_blocks_pile_up_leaves_the_topic(
    tmp_path: Path, lag: float, listens: bool
) -> None:
    source = BlockSource(MODEL, BLOCK)
    receiver = listening_receiver(tmp_path, source)
    clocks_differ = 3_000.0

    messages = messages_of(source, source.offer)
    receiver.receive(*next(messages), 1.0, shared_at=1.0 - clocks_differ)
    assert receiver.listens
    receiver.receive(*next(messages), 2.0 + lag, shared_at=2.0 - clocks_differ)

    assert receiver.listens is listens
    for label, block in messages:  # what is on its way is still good
        receiver.receive(label, block, 9.0, shared_at=9.0 - clocks_differ)
    assert receiver.outcome == FetchedFile(tmp_path / "data")
    assert receiver.counts.shared == source.offer.block_count
    assert receiver.counts.unwanted == 0


def test_a_device_that_misses_what_it_asked_for_twice_leaves_the_topic(tmp_path: Path) -> None:
    receiver, now = listening_receiver(tmp_path, BlockSource(MODEL, BLOCK)), 0.1
    heard = []
    for _ in range(3):
        now = receiver.next_time(now)
        heard += [request.lacks_from is not None for request in receiver.requests(now)]

    assert heard == [True, False, False]


def test_a_lost_connection_is_no_miss(tmp_path: Path) -> None:
    receiver = listening_receiver(tmp_path, BlockSource(MODEL, BLOCK))
    for now in (1.0, 2.0, 3.0, 4.0):
        receiver.reconnected(now)
        (request,) = receiver.requests(now)
        assert request.repeated > 0
        assert request.lacks_from is not None


def asks(*indices: int, lacks_from: int | None, repeated: int = 0) -> BlockRequest:
    return BlockRequest(
        digest=Digest.of(b"model"),
        block_size=BLOCK,
        section="data",
        indices=indices,
        together=4,
        lacks_from=lacks_from,
        repeated=repeated,
    )


def sent(
    audience: Audience, name: DeviceId, request: BlockRequest, now: float = 1
) -> list[BlockRun]:
    audience.note(name, request, now)
    return list(audience.runs(name, request, request.together))


def test_blocks_go_to_all_where_another_device_lacks_them_and_are_not_repeated() -> None:
    audience = Audience()
    assert sent(audience, A, asks(0, 1, lacks_from=2)) == [BlockRun(0, 2, to_all=False)]
    assert sent(audience, B, asks(0, 1, lacks_from=2)) == [BlockRun(0, 2, to_all=False)]
    assert sent(audience, A, asks(2, 3, 4, lacks_from=5)) == [
        BlockRun(2, 2, to_all=True),
        BlockRun(4, 1, to_all=True),
    ]
    assert sent(audience, B, asks(2, 3, 4, 5, lacks_from=6)) == [BlockRun(5, 1, to_all=True)]


def test_a_repeated_block_goes_to_who_asks_and_what_went_before_counts_no_more() -> None:
    audience = Audience()
    sent(audience, A, asks(0, lacks_from=1))
    sent(audience, B, asks(0, lacks_from=1))
    sent(audience, A, asks(1, 2, lacks_from=3))

    assert sent(audience, B, asks(1, lacks_from=2)) == []
    assert sent(audience, B, asks(1, lacks_from=2, repeated=1)) == [BlockRun(1, 1, to_all=False)]
    assert sent(audience, B, asks(2, lacks_from=3)) == [BlockRun(2, 1, to_all=False)]


def test_a_device_that_has_left_has_what_went_to_all_until_then() -> None:
    audience = Audience()
    sent(audience, A, asks(0, lacks_from=1))
    sent(audience, B, asks(0, lacks_from=1))
    sent(audience, A, asks(1, 2, lacks_from=3))

    assert sent(audience, B, asks(1, 2, 3, lacks_from=None)) == [BlockRun(3, 1, to_all=False)]
    assert sent(audience, A, asks(3, lacks_from=4)) == [BlockRun(3, 1, to_all=False)]


def test_a_device_that_went_away_is_not_sent_anything() -> None:
    audience = Audience()
    sent(audience, A, asks(0, lacks_from=1))
    assert sent(audience, B, asks(0, lacks_from=1), now=100) == [BlockRun(0, 1, to_all=False)]
    assert sent(audience, B, asks(1, lacks_from=2), now=100) == [BlockRun(1, 1, to_all=False)]


def connect(broker: MosquittoBroker, user: str, port: int) -> Connection:
    name, password = broker.credentials(user)
    settings = MqttSettings(
        client_id=f"{user}.data",
        port=port,
        user=name,
        password=password,
        reconnect_shortest_seconds=0.02,
        reconnect_longest_seconds=0.5,
    )
    return MqttConnection(settings)


class RealFleet:
    """Five devices at Mosquitto, the first behind a link of its own."""

    def __init__(self, broker: MosquittoBroker, rate: float) -> None:
        broker.add_users(DEVICES)
        self.link = Relay(broker.host, broker.port, rate=rate)
        self._made: list[BlockExchange] = []
        self.coordinator = self._exchange(broker, COORDINATOR, None, broker.port)
        ports = dict.fromkeys(DEVICES, broker.port) | {A: self.link.port}
        self.devices = {
            name: self._exchange(broker, name, name, port) for name, port in ports.items()
        }

    def _exchange(
        self, broker: MosquittoBroker, name: DeviceId, device: DeviceId | None, port: int
    ) -> BlockExchange:
        sender = Sender(TOPICS.fleet, name, BootId.fresh())
        made = BlockExchange(connect(broker, name, port), TOPICS, sender, device=device)
        made.start()
        made.connection.wait_connected(PATIENCE)
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in self._made:
            made.stop()
        self.link.close()


@pytest.mark.broker
def test_mosquitto_gives_all_what_is_sent_once_and_a_slow_device_holds_up_nobody(
    mosquitto: MosquittoBroker, tmp_path: Path
) -> None:
    fleet = RealFleet(mosquitto, rate=2e6)
    data = random.Random(2).randbytes(6_000_000)
    try:
        offer = fleet.coordinator.serve(data)
        futures = {
            name: device.fetch(offer, tmp_path / name, name, seconds=PATIENCE)
            for name, device in fleet.devices.items()
        }
        for name in DEVICES[1:]:
            assert futures[name].result(PATIENCE).read_bytes() == data
        assert not futures[A].done()
        assert futures[A].result(PATIENCE).read_bytes() == data

        up = fleet.coordinator.connection.meter.by_class()
        assert up["all/blk"].bytes_up > 0.8 * len(data)
        assert up["all/blk"].bytes_up + up["down/blk"].bytes_up < 2.5 * len(data)
        for device in fleet.devices.values():
            assert device.connection.meter.total().bytes_down < 1.5 * len(data)
    finally:
        fleet.close()


@pytest.mark.broker
def test_all_have_the_file_after_a_broker_died_in_the_middle(
    mosquitto: MosquittoBroker, tmp_path: Path
) -> None:
    fleet = RealFleet(mosquitto, rate=3e6)
    data = random.Random(3).randbytes(6_000_000)
    try:
        offer = fleet.coordinator.serve(data)
        futures = [
            device.fetch(offer, tmp_path / name, name, seconds=PATIENCE)
            for name, device in fleet.devices.items()
        ]
        slow = fleet.devices[A].connection.meter
        while slow.total().bytes_down < 500_000:
            assert not futures[0].done()

        mosquitto.kill()
        mosquitto.start()

        for future in futures:
            assert future.result(PATIENCE).read_bytes() == data
    finally:
        fleet.close()
