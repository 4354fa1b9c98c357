"""The small parts: filters, access rules, meter, back-off, inbox and the outgoing queue."""

import random
import socket
import threading
import time
from pathlib import Path

import pytest

from fleetledger.schemas.envelope import COORDINATOR, PROXY
from fleetledger.transport.access import (
    allowed_filters,
    client_id_belongs_to,
    is_allowed,
    mosquitto_access_file,
)
from fleetledger.transport.backoff import Backoff
from fleetledger.transport.errors import (
    NotAuthorisedError,
    QueueFullError,
    TransportError,
)
from fleetledger.transport.filters import covers, matches
from fleetledger.transport.inbox import Inbox
from fleetledger.transport.interface import (
    Connected,
    ConnectionProblem,
    Disconnected,
    IncomingMessage,
    OutgoingMessage,
)
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.meter import Counts, Meter, topic_class
from fleetledger.transport.paho_link import Waker
from fleetledger.transport.pending_bytes import PendingBytes


def outgoing(payload: bytes) -> OutgoingMessage:
    return OutgoingMessage("t", payload)


def message(payload: bytes = b"x") -> IncomingMessage:
    return IncomingMessage("t", payload, 0, retained=False)


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/c", False),
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("a/+/c", "a/b/c", True),
        ("+", "a/b", False),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("a/b/c", "a/b", False),
    ],
)
def test_filters_match_as_the_standard_says(topic_filter: str, topic: str, expected: bool) -> None:
    assert matches(topic_filter, topic) is expected


def test_a_filter_covers_another_only_if_it_covers_all_its_topics() -> None:
    chance = random.Random(5)
    topics = ["/".join(chance.choices("ab", k=chance.randint(1, 3))) for _ in range(60)]
    filters = ["/".join(chance.choices(["a", "b", "+"], k=chance.randint(1, 3))) for _ in range(40)]
    filters += [f"{f}/#" for f in filters[:10]] + ["#"]
    for outer in filters:
        for inner in filters:
            if covers(outer, inner):
                assert all(matches(outer, t) for t in topics if matches(inner, t)), (outer, inner)
    assert not covers("a/+", "a/#")
    assert covers("a/#", "a/+/b")


@pytest.mark.parametrize(
    ("action", "topic", "expected"),
    [
        ("publish", "fleetledger/1/f/up/dev-a/msg", True),
        ("publish", "fleetledger/1/f/up/dev-b/msg", False),
        ("publish", "fleetledger/1/f/down/dev-a/rcpt", False),
        ("publish", "fleetledger/1/f/all/state", False),
        ("publish", "fleetledger/2/f/up/dev-a/msg", False),
        ("publish", "fleetledger/1/f/up/dev-a/of-its-own", False),
        ("publish", "fleetledger/1/f/up/dev-a/msg/deeper", False),
        ("receive", "fleetledger/1/f/down/dev-a/rcpt", True),
        ("receive", "fleetledger/1/f/down/dev-b/rcpt", False),
        ("receive", "fleetledger/1/f/up/dev-a/msg", False),
        ("receive", "fleetledger/1/f/all/state", True),
        ("receive", "fleetledger/1/f/down/+/rcpt", False),
        ("receive", "fleetledger/#", False),
        ("publish", "fleetledger/1/f/proxy/up/dev-a/msg", True),
        ("publish", "fleetledger/1/f/proxy/up/dev-b/msg", False),
        ("receive", "fleetledger/1/f/proxy/down/dev-a/rcpt", True),
        ("receive", "fleetledger/1/f/proxy/up/dev-a/msg", False),
    ],
)
def test_a_device_reaches_its_own_branch_only(action: str, topic: str, expected: bool) -> None:
    leads = topic.startswith("fleetledger/1/") and "/proxy/" not in topic
    leads &= "of-its-own" not in topic and "deeper" not in topic
    assert is_allowed("dev-a", action, topic) is expected  # type: ignore[arg-type]
    assert is_allowed(COORDINATOR, action, topic) is leads  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("action", "topic", "expected"),
    [
        ("receive", "fleetledger/1/f/proxy/up/+/msg", True),
        ("publish", "fleetledger/1/f/proxy/down/dev-a/rcpt", True),
        ("receive", "fleetledger/1/f/down/proxy/assignment", True),
        ("publish", "fleetledger/1/f/up/proxy/msg", True),
        ("publish", "fleetledger/1/f/proxy/up/dev-a/msg", False),
        ("receive", "fleetledger/1/f/proxy/down/dev-a/rcpt", False),
        ("receive", "fleetledger/1/f/up/dev-a/msg", False),
        ("publish", "fleetledger/1/f/down/dev-a/assignment", False),
    ],
)
def test_a_proxy_leads_its_own_branch_and_is_a_device_elsewhere(
    action: str, topic: str, expected: bool
) -> None:
    assert is_allowed(PROXY, action, topic) is expected  # type: ignore[arg-type]


def test_a_client_id_belongs_to_the_user_it_begins_with() -> None:
    assert client_id_belongs_to("dev-a", "dev-a")
    assert client_id_belongs_to("dev-a", "dev-a.data")
    assert not client_id_belongs_to("dev-a", "dev-a2")
    assert not client_id_belongs_to("dev-a", "dev-b.data")
    assert allowed_filters("dev-a", "publish", "mill") == tuple(
        f"fleetledger/1/mill/{branch}/dev-a/{leaf}"
        for branch, leaves in (
            ("up", ("state", "msg", "hb", "req", "blk")),
            ("proxy/up", ("msg", "req", "blk")),
        )
        for leaf in leaves
    )


def test_the_page_about_the_transport_shows_the_access_rules_as_they_are() -> None:
    page = Path(__file__).parents[2] / "docs" / "transport.md"

    assert mosquitto_access_file() in page.read_text()


def test_the_meter_sums_by_kind_of_topic_and_can_be_subtracted() -> None:
    meter = Meter()
    meter.sent("fleetledger/1/f/up/dev-a/msg", 10)
    meter.sent("fleetledger/1/f/up/dev-b/msg", 5)
    before = meter.total()
    meter.received("fleetledger/1/f/all/state", 7)

    assert meter.by_class() == {"up/msg": Counts(2, 15, 0, 0), "all/state": Counts(0, 0, 1, 7)}
    assert meter.total() - before == Counts(0, 0, 1, 7)
    assert topic_class("x") == "other"


def test_the_back_off_doubles_with_jitter_up_to_its_bound() -> None:
    backoff = Backoff(1.0, 8.0)

    waits = [backoff.next() for _ in range(6)]

    for wait, base in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert base / 2 <= wait <= base
    backoff.reset()
    assert backoff.next() <= 1.0


def test_the_inbox_is_bounded_but_always_has_room_for_the_state_of_the_connection() -> None:
    inbox = Inbox(max_messages=3, max_bytes=10)

    assert [inbox.put(message(b"1234")) for _ in range(3)] == [True, True, False]
    assert inbox.put(ConnectionProblem(TransportError("x")))
    assert not inbox.put(ConnectionProblem(TransportError("one too many")))
    assert inbox.put(Disconnected("x"))
    assert inbox.put(Connected(False))

    kinds = [type(inbox.next(0)) for _ in range(5)]
    assert kinds == [IncomingMessage, IncomingMessage, ConnectionProblem, Disconnected, Connected]
    assert inbox.next(0) is None
    assert inbox.put(message(bytes(1000))), "an empty inbox takes any message"


def test_a_message_that_finishes_before_it_is_placed_is_released() -> None:
    pending = PendingBytes(limit=10)
    pending.reserve("t", 8)
    assert pending.finished(1) is None
    with pytest.raises(QueueFullError, match="8 bytes already wait"):
        pending.reserve("t", 3)

    pending.placed(1, "t", 8)

    assert pending.wait_empty(0)
    pending.reserve("t", 100)
    pending.placed(2, "big", 100)
    assert pending.finished(2) == "big"
    assert pending.wait_empty(0)


def test_a_new_connection_takes_over_the_client_id_in_memory() -> None:
    broker = InMemoryBroker()
    old, new = broker.connection("x"), broker.connection("x")
    old.start()
    new.start()

    assert [type(old.next_event(0)) for _ in range(2)] == [Connected, Disconnected]
    assert (old.connected, new.connected) == (False, True)


def test_a_memory_session_has_a_bounded_queue() -> None:
    broker = InMemoryBroker(max_queued=3)
    reader, writer = broker.connection("r"), broker.connection("w")
    reader.subscribe("t")
    reader.start()
    writer.start()

    for number in range(5):
        writer.publish(outgoing(b"%d" % number))

    assert broker.dropped == 2
    events = [reader.next_event(0) for _ in range(5)]
    assert [e.payload for e in events if isinstance(e, IncomingMessage)] == [b"0", b"1", b"2"]


def test_memory_connections_may_be_used_from_many_threads() -> None:
    broker = InMemoryBroker(max_queued=10_000)
    reader = broker.connection("r")
    reader.subscribe("t")
    reader.start()
    writers = [broker.connection(f"w{number}") for number in range(4)]

    def work(number: int) -> None:
        writers[number].start()
        for _ in range(200):
            writers[number].publish(outgoing(b"x"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    received = 0
    end = time.monotonic() + 300
    while received < 800 and time.monotonic() < end:
        event = reader.next_event(0.1)
        if isinstance(event, IncomingMessage):
            reader.acknowledge(event)
            received += 1
    assert received == 800
    assert reader.next_event(0) is None


def test_a_refused_user_in_memory_gets_the_same_error_as_on_a_broker() -> None:
    connection = InMemoryBroker({"a": "right"}).connection("a", user="a", password="wrong")
    connection.start()

    with pytest.raises(NotAuthorisedError, match="check both"):
        connection.wait_connected(0)


def test_a_thread_is_woken_once_until_it_has_read_that() -> None:
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    waker = Waker(reading, writing)
    for _ in range(3):
        assert [waker.send(b"x") for _ in range(5)] == [1] * 5
        assert waker.fileno() == reading.fileno()
        assert waker.recv(10_000) == b"x"
        with pytest.raises(BlockingIOError):
            waker.recv(10_000)
    waker.close()
    waker.close()
