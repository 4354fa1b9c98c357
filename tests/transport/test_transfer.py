"""Two exchanges, agent's and coordinator's side, over brokers in memory and over Mosquitto."""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from fleetledger.schemas.envelope import COORDINATOR, Sender, encode
from fleetledger.schemas.offers import BlockData
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.errors import BlockError
from fleetledger.transport.faults import Faults
from fleetledger.transport.interface import Connection, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from fleetledger.transport.transfer import BlockExchange
from tests.transport.relay import Relay
from tests.transport.worlds import PATIENCE, A, B, fresh_topics

Connect = Callable[[str], Connection]
BLOCK = 4096


class Fleet:
    """A coordinator's exchange and one per device."""

    def __init__(self, connect: Connect) -> None:
        self.topics = fresh_topics()
        self._connect = connect
        self._made: list[BlockExchange] = []

    def exchange(self, device: DeviceId | None = None, **options: object) -> BlockExchange:
        name = DeviceId(device or COORDINATOR)
        sender = Sender(self.topics.fleet, name, BootId.fresh())
        made = BlockExchange(
            self._connect(name),
            self.topics,
            sender,
            device=device,
            **options,  # type: ignore[arg-type] # tests pass what the class takes
        )
        made.start()
        made.connection.wait_connected(PATIENCE)
        self._made.append(made)
        return made

    def stop(self) -> None:
        for made in self._made:
            made.stop()


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker(max_queued=10_000)


@pytest.fixture
def fleet(broker: InMemoryBroker) -> Iterator[Fleet]:
    made = Fleet(lambda user: broker.connection(f"{user}.data"))
    yield made
    made.stop()


def data_of(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def reason(future: Future[Path], seconds: float = PATIENCE) -> str:
    with pytest.raises(BlockError) as caught:
        future.result(seconds)
    return str(caught.value)


def test_the_coordinator_fetches_what_a_device_offers(fleet: Fleet, tmp_path: Path) -> None:
    coordinator, device = fleet.exchange(), fleet.exchange(A)
    data = data_of(300_000)

    offer = device.serve(data)
    path = coordinator.fetch(offer, tmp_path / "blob", A, seconds=20).result(PATIENCE)

    assert path.read_bytes() == data


def test_devices_fetch_a_file_that_the_coordinator_offers(fleet: Fleet, tmp_path: Path) -> None:
    coordinator, devices = fleet.exchange(), {name: fleet.exchange(name) for name in (A, B)}
    origin = tmp_path / "model.onnx"
    origin.write_bytes(data_of(400_000))

    offer = coordinator.serve(origin)
    futures = [
        exchange.fetch(offer, tmp_path / name / "model", name, seconds=20)
        for name, exchange in devices.items()
    ]

    for future in futures:
        assert future.result(PATIENCE).read_bytes() == origin.read_bytes()


def test_a_misbehaving_broker_does_no_harm(
    fleet: Fleet, broker: InMemoryBroker, tmp_path: Path
) -> None:
    coordinator, device = fleet.exchange(), fleet.exchange(A)
    broker.faults = Faults(seed=3, drop=0.1, duplicate=0.2, reorder=0.5)
    data = data_of(200 * BLOCK)

    offer = device.serve(BlockSource(data, BLOCK))
    path = coordinator.fetch(offer, tmp_path / "blob", A, seconds=PATIENCE).result(PATIENCE)

    assert path.read_bytes() == data


def test_more_transfers_than_run_at_once_all_end_well(fleet: Fleet, tmp_path: Path) -> None:
    coordinator, device = fleet.exchange(), fleet.exchange(A)
    offers = [device.serve(data_of(20_000, seed)) for seed in range(12)]

    futures = [coordinator.fetch(offer, tmp_path / offer.digest, A, seconds=20) for offer in offers]

    for offer, future in zip(offers, futures, strict=True):
        assert Digest.of(future.result(PATIENCE).read_bytes()) == offer.digest


def test_the_same_file_wanted_twice_is_delivered_to_both(fleet: Fleet, tmp_path: Path) -> None:
    coordinator, device = fleet.exchange(), fleet.exchange(A)
    offer = device.serve(data_of(50_000))

    twice = [coordinator.fetch(offer, tmp_path / "blob", A, seconds=20) for _ in range(2)]

    assert {future.result(PATIENCE) for future in twice} == {tmp_path / "blob"}


def test_a_silent_peer_means_failure_at_the_deadline(fleet: Fleet, tmp_path: Path) -> None:
    coordinator = fleet.exchange()
    offer = BlockSource(data_of(BLOCK)).offer
    began = time.monotonic()

    text = reason(coordinator.fetch(offer, tmp_path / "blob", A, seconds=0.5))

    assert "deadline" in text
    assert time.monotonic() - began >= 0.5


def test_transfers_that_never_began_end_at_their_deadline_too(fleet: Fleet, tmp_path: Path) -> None:
    coordinator = fleet.exchange()
    offers = [BlockSource(data_of(BLOCK, seed)).offer for seed in range(6)]
    for offer in offers[:4]:
        coordinator.fetch(offer, tmp_path / offer.digest, A, seconds=30)

    last = coordinator.fetch(offers[5], tmp_path / "blob", A, seconds=0.3)

    assert "waiting for other transfers" in reason(last)


def test_stop_ends_every_transfer_with_a_reason(fleet: Fleet, tmp_path: Path) -> None:
    coordinator = fleet.exchange()
    offers = [BlockSource(data_of(BLOCK, seed)).offer for seed in range(6)]
    futures = [coordinator.fetch(o, tmp_path / o.digest, A, seconds=30) for o in offers]

    coordinator.stop()

    assert {reason(future) for future in futures} == {"the exchange was stopped"}
    with pytest.raises(BlockError, match="has stopped"):
        coordinator.fetch(offers[0], tmp_path / "blob", A, seconds=30)


def test_only_what_the_predicate_allows_is_served(fleet: Fleet, tmp_path: Path) -> None:
    coordinator = fleet.exchange(may_serve=lambda peer, digest: peer == A)
    allowed, stranger = fleet.exchange(A), fleet.exchange(B)
    offer = coordinator.serve(data_of(BLOCK))

    allowed.fetch(offer, tmp_path / "a", A, seconds=20).result(PATIENCE)
    assert "not served to dev-b" in reason(stranger.fetch(offer, tmp_path / "b", B, seconds=20))
    assert coordinator.refused_messages > 0


def test_withdrawn_data_is_served_no_longer(fleet: Fleet, tmp_path: Path) -> None:
    coordinator, device = fleet.exchange(), fleet.exchange(A)
    offer = device.serve(data_of(BLOCK))

    device.withdraw(offer.digest)

    assert "not served" in reason(coordinator.fetch(offer, tmp_path / "b", A, seconds=20))


def test_a_transfer_survives_a_lost_connection(
    fleet: Fleet, broker: InMemoryBroker, tmp_path: Path
) -> None:
    coordinator, device = fleet.exchange(), fleet.exchange(A)
    data = data_of(3_000_000)
    offer = device.serve(BlockSource(data, BLOCK))

    future = coordinator.fetch(offer, tmp_path / "blob", A, seconds=PATIENCE)
    for _ in range(10):
        time.sleep(0.01)
        broker.drop_connection("coordinator.data")
        broker.drop_connection("dev-a.data")

    assert future.result(PATIENCE).read_bytes() == data


@pytest.mark.parametrize("payload", [b"", b"{}\n", b"\xff" * 1000, b"[1]\nrest"])
def test_nonsense_is_counted_and_does_no_harm(
    fleet: Fleet, broker: InMemoryBroker, tmp_path: Path, payload: bytes
) -> None:
    coordinator, device = fleet.exchange(), fleet.exchange(A)
    for leaf in ("req", "blk"):
        topic = f"{fleet.topics.up(A, 'req')[:-3]}{leaf}"
        broker.route(OutgoingMessage(topic, payload, qos=0), A)

    offer = device.serve(data_of(BLOCK))
    coordinator.fetch(offer, tmp_path / "blob", A, seconds=20).result(PATIENCE)

    assert coordinator.refused_messages == 2


def test_a_block_from_another_sender_is_refused(
    fleet: Fleet, broker: InMemoryBroker, tmp_path: Path
) -> None:
    coordinator = fleet.exchange()
    data = data_of(BLOCK)
    offer = BlockSource(data).offer
    future = coordinator.fetch(offer, tmp_path / "blob", A, seconds=1.0)
    thief = Sender(fleet.topics.fleet, B, BootId.fresh())
    label = BlockData(digest=offer.digest, section="list", index=0)

    forged = encode(thief.seal(label, sent_ms=0, attachment=data))
    broker.route(OutgoingMessage(fleet.topics.up(A, "blk"), forged, qos=0), B)

    assert "1 of 1 data blocks missing" in reason(future)
    assert coordinator.refused_messages == 1


@pytest.mark.broker
def test_four_megabytes_survive_a_broker_that_dies_in_the_middle(
    mosquitto: MosquittoBroker, tmp_path: Path
) -> None:
    relay = Relay(mosquitto.host, mosquitto.port, rate=4e6)

    def connect(user: str) -> Connection:
        name, password = mosquitto.credentials(user)
        return MqttConnection(
            MqttSettings(
                client_id=f"{user}.data",
                port=relay.port,
                user=name,
                password=password,
                reconnect_longest_seconds=0.5,
            )
        )

    fleet = Fleet(connect)
    try:
        coordinator, device = fleet.exchange(), fleet.exchange(A)
        data = data_of(4_000_000)
        offer = coordinator.serve(data)
        future = device.fetch(offer, tmp_path / "model", A, seconds=PATIENCE)
        part = tmp_path / "model.part"
        while not part.exists():
            time.sleep(0.01)
        time.sleep(0.3)
        assert not future.done()

        mosquitto.kill()
        mosquitto.start()

        assert future.result(PATIENCE).read_bytes() == data
        assert device.connection.meter.total().bytes_down < 1.35 * len(data)
    finally:
        fleet.stop()
        relay.close()


@pytest.mark.broker
def test_what_devices_give_is_compressed_on_its_way_and_what_they_get_is_not(
    mosquitto: MosquittoBroker, tmp_path: Path
) -> None:
    def connect(user: str) -> Connection:
        name, password = mosquitto.credentials(user)
        client = f"{user}.data-{tmp_path.name}"
        return MqttConnection(
            MqttSettings(client, port=mosquitto.port, user=name, password=password)
        )

    fleet = Fleet(connect)
    data = bytes(byte & 15 for byte in data_of(400_000))
    try:
        coordinator, device = fleet.exchange(), fleet.exchange(A)
        meter = device.connection.meter
        given = coordinator.fetch(device.serve(data), tmp_path / "given", A, seconds=PATIENCE)
        assert given.result(PATIENCE).read_bytes() == data
        assert 0.5 * len(data) < meter.by_class()["up/blk"].bytes_up < 0.75 * len(data)

        got = device.fetch(coordinator.serve(data), tmp_path / "got", A, seconds=PATIENCE)
        assert got.result(PATIENCE).read_bytes() == data
        assert meter.by_class()["down/blk"].bytes_down > len(data)
    finally:
        fleet.stop()
