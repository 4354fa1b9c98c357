"""One face for all brokers, so that the behaviour tests read the same for each."""

import itertools
import secrets
import time
from typing import Any, Protocol

from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.brokers import Broker
from fleetledger.transport.interface import Connection, Event, IncomingMessage, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.transport.relay import Relay

PATIENCE = 300.0
"""Seconds after which a test gives up waiting."""
QUIET = 0.3
"""Seconds without news that count as nothing coming."""
A, B = DeviceId("dev-a"), DeviceId("dev-b")


class World(Protocol):
    """A broker with its clients."""

    keeps_unacknowledged: bool
    marks_only_retained: bool
    reports_forbidden: bool
    keeps_sessions: bool
    topics: FleetTopics

    def connection(self, user: str, **options: Any) -> Connection: ...

    def settle(self, connection: Connection, topic: str) -> None:
        """Return once the subscription certainly works: what is sent on `topic` arrives."""

    def cut(self, connection: Connection) -> None: ...

    def restart(self) -> None: ...

    def close(self) -> None: ...


def fresh_topics() -> FleetTopics:
    return FleetTopics(FleetId(f"fleet-{secrets.token_hex(4)}"))


class MemoryWorld:
    keeps_unacknowledged = True
    marks_only_retained = True
    reports_forbidden = keeps_sessions = True

    def __init__(self) -> None:
        self.topics = fresh_topics()
        self._passwords = {user: secrets.token_hex(8) for user in (A, B, "coordinator")}
        self.broker = InMemoryBroker(self._passwords)
        self._made: list[Connection] = []

    def connection(self, user: str, **options: Any) -> Connection:
        role = options.pop("role", "control")
        options.setdefault("password", self._passwords[user])
        made = self.broker.connection(f"{user}.{role}", user=user, **options)
        self._made.append(made)
        return made

    def settle(self, connection: Connection, topic: str) -> None:
        """In memory a subscription works at once."""

    def cut(self, connection: Any) -> None:
        self.broker.drop_connection(connection.identity.client_id)

    def restart(self) -> None:
        self.broker.restart()

    def close(self) -> None:
        for made in self._made:
            made.stop()


class MqttWorld:
    """A real broker; every client goes through a relay of its own."""

    def __init__(self, broker: Broker, version: int, **differences: bool) -> None:
        self.topics = fresh_topics()
        self.keeps_unacknowledged = version == 5
        self.marks_only_retained = differences.get("marks_only_retained", True)
        self.reports_forbidden = self.keeps_sessions = version == 5
        self._broker = broker
        self._version = version
        self._run = secrets.token_hex(4)
        self._relays: dict[Connection, Relay] = {}
        self._probe: Connection | None = None

    def connection(self, user: str, **options: Any) -> Connection:
        role = options.pop("role", "control")
        will = options.pop("will", None)
        options.setdefault("password", self._broker.credentials(user)[1])
        relay = Relay(self._broker.host, self._broker.port)
        settings = MqttSettings(
            client_id=f"{user}.{role}-{self._run}",
            port=relay.port,
            user=user,
            versions=(self._version,),
            will_delay_seconds=0,
            reconnect_shortest_seconds=0.02,
            reconnect_longest_seconds=0.2,
            **options,
        )
        made = MqttConnection(settings, will)
        self._relays[made] = relay
        return made

    def settle(self, connection: Connection, topic: str) -> None:
        if self._probe is None:
            self._probe = started(self.connection("coordinator", role="probe"))
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._probe.wait_connected(PATIENCE)
            send(self._probe, topic, b"probe", qos=0)
            if b"probe" in messages(rest(connection, 0.05)):
                return
        raise AssertionError(f"{topic}: no subscription within {PATIENCE} s")

    def cut(self, connection: Connection) -> None:
        self._relays[connection].cut()

    def restart(self) -> None:
        self._broker.kill()
        self._broker.start()

    def close(self) -> None:
        for made, relay in self._relays.items():
            made.stop()
            relay.close()


def started(connection: Connection, *filters: str, qos: int = 1) -> Connection:
    """Start `connection`, subscribed, and wait until it is usable."""
    connection.subscribe(*filters, qos=qos)
    connection.start()
    connection.wait_connected(PATIENCE)
    return connection


def until_heard(reader: Connection, speaker: Connection, topic: str) -> None:
    """Return once what `speaker` sends on `topic` certainly reaches `reader`."""
    end = time.monotonic() + PATIENCE
    while b"probe" not in messages(rest(reader, 0.05)):
        assert time.monotonic() < end, f"{topic}: no subscription within {PATIENCE} s"
        send(speaker, topic, b"probe", qos=0)
    send(speaker, topic, b"settled", qos=0)
    while next_of(reader, IncomingMessage).payload != b"settled":
        pass  # probes that were late


def next_of(connection: Connection, kind: type, seconds: float = PATIENCE) -> Any:
    """Return the next event of `kind`, passing over others; fail after `seconds`."""
    end = time.monotonic() + seconds
    while (remaining := end - time.monotonic()) > 0:
        event = connection.next_event(remaining)
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} within {seconds} s")


def payloads(connection: Connection, count: int, *, acknowledge: bool = True) -> list[bytes]:
    """Return the payloads of the next `count` messages."""
    found = []
    for _ in range(count):
        message = next_of(connection, IncomingMessage)
        if acknowledge:
            connection.acknowledge(message)
        found.append(message.payload)
    return found


def rest(connection: Connection, seconds: float = QUIET) -> list[Event]:
    """Return everything that still comes until it is quiet for `seconds`."""
    return list(itertools.takewhile(bool, iter(lambda: connection.next_event(seconds), None)))


def messages(events: list[Event]) -> list[bytes]:
    return [event.payload for event in events if isinstance(event, IncomingMessage)]


def send(connection: Connection, topic: str, payload: bytes, **options: Any) -> None:
    connection.publish(OutgoingMessage(topic, payload, **options))
