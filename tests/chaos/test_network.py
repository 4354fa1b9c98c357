"""The in-memory broker with latency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.loop import Loop
from fleetledger.simulator.virtual.stopwatch import Stopwatch
from fleetledger.simulator.virtual.world import World
from fleetledger.transport.interface import Connected, IncomingMessage, OutgoingMessage
from tests.chaos.network import VirtualConnection, VirtualNetwork

LATENCY = 0.1


@dataclass(frozen=True)
class NetworkWorld(World):
    network: VirtualNetwork

    @classmethod
    def made(cls, seed: int) -> NetworkWorld:
        loop = Loop(VirtualClock())
        return cls(loop, Stopwatch(), VirtualNetwork(loop, LATENCY, seed))


def started(world: NetworkWorld, name: str, *filters: str) -> VirtualConnection:
    connection = world.network.connection(name)
    connection.subscribe(*filters)
    connection.start()
    assert connection.next_event(0) == Connected(False)
    return connection


def arrivals(world: NetworkWorld, connection: VirtualConnection) -> list[tuple[float, bytes]]:
    found: list[tuple[float, bytes]] = []

    def take() -> None:
        while isinstance(event := connection.next_event(0), IncomingMessage):
            found.append((world.now, event.payload))

    connection.on_event = take
    world.run(lambda: False, lambda: 10.0)
    return found


@pytest.fixture
def world() -> NetworkWorld:
    return NetworkWorld.made(1)


def test_nothing_arrives_before_its_latency(world: NetworkWorld) -> None:
    reader = started(world, "reader", "t/x")
    started(world, "writer").publish(OutgoingMessage("t/x", b"hello"))
    assert reader.next_event(0) is None
    assert not reader.waits
    ((when, payload),) = arrivals(world, reader)
    assert payload == b"hello"
    assert 0.5 * LATENCY <= when <= 1.5 * LATENCY


def test_messages_of_one_sender_keep_their_order(world: NetworkWorld) -> None:
    reader, writer = started(world, "reader", "t/#"), started(world, "writer")
    sent = [str(number).encode() for number in range(50)]
    for payload in sent:
        writer.publish(OutgoingMessage("t/x", payload))
    assert [payload for _, payload in arrivals(world, reader)] == sent


def test_the_mean_of_many_latencies_is_the_mean(world: NetworkWorld) -> None:
    reader, writer = started(world, "reader", "t/#"), started(world, "writer")
    for number in range(400):
        writer.publish(OutgoingMessage(f"t/{number}/x", b""))
    times = [when for when, _ in arrivals(world, reader)]
    assert abs(sum(times) / len(times) - LATENCY) < 0.1 * LATENCY


@pytest.mark.parametrize("change", [lambda world: None, lambda world: NetworkWorld.made(2)])
def test_the_seed_decides_the_latencies(
    change: Callable[[NetworkWorld], NetworkWorld | None],
) -> None:
    def times(world: NetworkWorld) -> list[float]:
        reader, writer = started(world, "reader", "t/#"), started(world, "writer")
        for number in range(5):
            writer.publish(OutgoingMessage(f"t/{number}/x", b""))
        return [when for when, _ in arrivals(world, reader)]

    first, other = NetworkWorld.made(1), change(NetworkWorld.made(1))
    assert (times(first) == times(other or NetworkWorld.made(1))) == (other is None)


def test_retained_messages_wait_for_who_comes_later(world: NetworkWorld) -> None:
    started(world, "writer").publish(OutgoingMessage("t/x", b"kept", retain=True))
    world.run(lambda: False, lambda: 10.0)
    reader = started(world, "reader", "t/x")
    assert [payload for _, payload in arrivals(world, reader)] == [b"kept"]
