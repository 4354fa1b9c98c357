"""The network faults: what happens to messages, and that it ends."""

from __future__ import annotations

from collections import Counter

from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.loop import Loop
from fleetledger.transport.interface import (
    Connected,
    Disconnected,
    IncomingMessage,
    OutgoingMessage,
)
from tests.chaos.faults import NetworkFaults
from tests.chaos.faulty_network import FaultyNetwork
from tests.chaos.network import VirtualConnection

CLEAR = NetworkFaults(0.0, 0.0, 0.0, 0.0, 0.0)


class Sky:
    """A network with one sender and one receiver."""

    def __init__(self, network_faults: NetworkFaults) -> None:
        self.loop = Loop(VirtualClock())
        self.tally: Counter[str] = Counter()
        self.network = FaultyNetwork(self.loop, network_faults, 3, self.tally)
        self.sender = self.client("sender")
        self.receiver = self.client("receiver")
        self.receiver.subscribe("t/#")

    def client(self, name: str, will: OutgoingMessage | None = None) -> VirtualConnection:
        connection = self.network.connection(name, will=will)
        connection.on_event = lambda: None
        connection.start()
        return connection

    def send(self, number: int, *, retain: bool = False) -> None:
        self.sender.publish(OutgoingMessage("t/x", b"%d" % number, retain=retain))

    def pass_time(self, until: float) -> None:
        self.loop.at(until, lambda: None)
        while self.loop.next_time() <= until:
            self.loop.step()

    def received(self) -> list[int]:
        """Take what has arrived; messages are acknowledged."""
        found = []
        while (event := self.receiver.next_event(0)) is not None:
            if isinstance(event, IncomingMessage):
                found.append(int(event.payload))
                self.receiver.acknowledge(event)
        return found


def sent_through(
    network_faults: NetworkFaults, messages: int = 300
) -> tuple[list[int], Counter[str]]:
    sky = Sky(network_faults)
    for number in range(messages):
        sky.send(number)
        sky.pass_time(sky.loop.clock.now + 0.1)
    sky.pass_time(10_000.0)
    assert sky.network.under_way == 0
    return sky.received(), sky.tally


def test_without_faults_everything_arrives_once_and_in_order() -> None:
    received, tally = sent_through(CLEAR)
    assert received == list(range(300))
    assert not +tally


def test_lost_messages_are_gone_whatever_their_quality_of_service() -> None:
    received, tally = sent_through(NetworkFaults(1e9, 0.3, 0.0, 0.0, 0.0))
    assert 100 < len(received) < 250
    assert tally["messages lost"] == 300 - len(received)
    assert received == sorted(set(received))


def test_doubled_messages_arrive_twice() -> None:
    received, tally = sent_through(NetworkFaults(1e9, 0.0, 0.3, 0.0, 0.0))
    assert set(received) == set(range(300))
    assert len(received) == 300 + tally["messages doubled"] > 350


def test_late_messages_are_passed_by_others() -> None:
    received, tally = sent_through(NetworkFaults(1e9, 0.0, 0.0, 0.3, 120.0))
    assert sorted(received) == list(range(300))
    assert received != sorted(received)
    assert tally["messages late"] > 50


def test_the_faults_end() -> None:
    sky = Sky(NetworkFaults(50.0, 0.9, 0.9, 0.0, 0.0))
    sky.pass_time(50.0)
    for number in range(100):
        sky.send(number)
    sky.pass_time(60.0)
    assert sky.received() == list(range(100))


def test_a_lost_retained_message_is_not_retained() -> None:
    sky = Sky(NetworkFaults(1e9, 1.0, 0.0, 0.0, 0.0))
    for number in range(50):
        sky.send(number, retain=True)
    assert sky.tally["messages lost"] >= 50
    late = sky.client("late comer")
    late.subscribe("t/#")
    sky.pass_time(10.0)
    assert not [event for event in iter(lambda: late.next_event(0), None) if is_message(event)]


def is_message(event: object) -> bool:
    return isinstance(event, IncomingMessage)


def test_a_cut_connection_speaks_its_will_and_returns() -> None:
    sky = Sky(CLEAR)
    client = sky.client("mortal", will=OutgoingMessage("t/will", b"7"))
    sky.network.cut("mortal", 5.0)
    sky.pass_time(1.0)
    assert not client.connected
    assert sky.received() == [7]
    sky.pass_time(6.0)
    assert client.connected
    kinds = [type(event) for event in iter(lambda: client.next_event(0), None)]
    assert kinds == [Connected, Disconnected, Connected]
    assert sky.tally["connections cut"] == 1


def test_the_connection_of_an_ended_program_does_not_return() -> None:
    sky = Sky(CLEAR)
    client = sky.client("mortal", will=OutgoingMessage("t/will", b"7"))
    sky.network.cut("mortal", 5.0)
    sky.network.end(client)
    sky.pass_time(6.0)
    assert not client.connected
    assert sky.received() == [7]
    sky.network.cut("mortal", 1.0)
    sky.network.cut("nobody", 1.0)


def test_it_is_calm_once_the_faults_the_late_and_the_cut_off_are_over() -> None:
    assert Sky(CLEAR).network.calm_since == 0.0
    sky = Sky(NetworkFaults(20.0, 0.0, 0.0, 1.0, 60.0))
    assert sky.network.calm_since == 20.0
    for number in range(50):
        sky.send(number)
    arrives = sky.network.calm_since
    assert 20.0 < arrives <= 61.0
    sky.pass_time(arrives - 1e-6)
    assert sky.network.under_way == 1
    sky.pass_time(arrives)
    assert sky.network.under_way == 0
    sky.network.cut("receiver", 120.0)
    assert sky.network.calm_since == sky.loop.clock.now + 120.0
