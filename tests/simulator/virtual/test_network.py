"""The in-memory broker with latency."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleetledger.simulator.virtual.network import VirtualConnection
from fleetledger.simulator.virtual.world import VirtualWorld
from fleetledger.transport.interface import Connected, IncomingMessage, OutgoingMessage

LATENCY = 0.1


def started(world: VirtualWorld, name: str, *filters: str) -> VirtualConnection:
    connection = world.network.connection(name)
    connection.subscribe(*filters)
    connection.start()
    assert connection.next_event(0) == Connected(False)
    return connection


def arrivals(world: VirtualWorld, connection: VirtualConnection) -> list[tuple[float, bytes]]:
    found: list[tuple[float, bytes]] = []

    def take() -> None:
        while isinstance(event := connection.next_event(0), IncomingMessage):
            found.append((world.now, event.payload))

    connection.on_event = take
    world.run(lambda: False, lambda: 10.0)
    return found


@pytest.fixture
def world() -> VirtualWorld:
    return VirtualWorld.made(1, LATENCY)


def test_nothing_arrives_before_its_latency(world: VirtualWorld) -> None:
    reader = started(world, "reader", "t/x")
    started(world, "writer").publish(OutgoingMessage("t/x", b"hello"))
    assert reader.next_event(0) is None
    assert not reader.waits
    ((when, payload),) = arrivals(world, reader)
    assert payload == b"hello"
    assert 0.5 * LATENCY <= when <= 1.5 * LATENCY


def test_messages_of_one_sender_keep_their_order(world: VirtualWorld) -> None:
    reader, writer = started(world, "reader", "t/#"), started(world, "writer")
    sent = [str(number).encode() for number in range(50)]
    for payload in sent:
        writer.publish(OutgoingMessage("t/x", payload))
    assert [payload for _, payload in arrivals(world, reader)] == sent


def test_the_mean_of_many_latencies_is_the_mean(world: VirtualWorld) -> None:
    reader, writer = started(world, "reader", "t/#"), started(world, "writer")
    for number in range(400):
        writer.publish(OutgoingMessage(f"t/{number}/x", b""))
    times = [when for when, _ in arrivals(world, reader)]
    assert abs(sum(times) / len(times) - LATENCY) < 0.1 * LATENCY


@pytest.mark.parametrize(
    "change", [lambda world: None, lambda world: VirtualWorld.made(2, LATENCY)]
)
def test_the_seed_decides_the_latencies(
    change: Callable[[VirtualWorld], VirtualWorld | None],
) -> None:
    def times(world: VirtualWorld) -> list[float]:
        reader, writer = started(world, "reader", "t/#"), started(world, "writer")
        for number in range(5):
            writer.publish(OutgoingMessage(f"t/{number}/x", b""))
        return [when for when, _ in arrivals(world, reader)]

    first, other = VirtualWorld.made(1, LATENCY), change(VirtualWorld.made(1, LATENCY))
    assert (times(first) == times(other or VirtualWorld.made(1, LATENCY))) == (other is None)


def test_retained_messages_wait_for_who_comes_later(world: VirtualWorld) -> None:
    started(world, "writer").publish(OutgoingMessage("t/x", b"kept", retain=True))
    world.run(lambda: False, lambda: 10.0)
    reader = started(world, "reader", "t/x")
    assert [payload for _, payload in arrivals(world, reader)] == [b"kept"]
