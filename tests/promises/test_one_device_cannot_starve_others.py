"""Promise 9: a device that sends ten times its quota does not double the others' waiting.

By a clock that passes as the coordinator works: a message that is handled costs ten milliseconds,
and one that is left out a tenth of that; to read a header line costs 50 ms for 128 KiB, as
`tests/fuzzing/test_nothing_takes_long.py` holds of the worst there are. `python -m
tests.promises.quota` does the same in real time, over a real Mosquitto, and so does
`test_costly_messages_over_a_broker.py` for what is costly to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from fleetledger.coordinator.core.rules import IntakeRules, Rules, StageRules
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.envelope import MAX_HEADER_BYTES, Envelope, Sender, decode, encode
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.values import BootId, ClassName, DeviceId
from fleetledger.schemas.wire import OWN, WireVersions
from fleetledger.transport.clock import Clock
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import FLEET, TOPICS, MemoryCoordinator, write_home

QUIET = tuple(DeviceId(f"quiet-{number}") for number in range(9))
LOUD = DeviceId("loud")
QUIET_PER_SECOND, LOUD_PER_SECOND = 5.0, 100.0
QUOTA = 600
"""Messages per minute: a tenth of what the loud device sends."""
INTAKE = IntakeRules(messages_per_minute=QUOTA)
NO_QUOTA = 10_000_000
HANDLED_SECONDS, LEFT_OUT_SECONDS = 0.01, 0.001
SECONDS = 10.0
SHORT = 4096
READ_SECONDS = 0.05 / 128 / 1024
"""Per byte of a header line."""


@dataclass
class Passing:
    """A clock that somebody moves."""

    now: float = 0.0

    @property
    def clock(self) -> Clock:
        return Clock(seconds=lambda: self.now, time_ns=lambda: 2 * 10**18 + round(self.now * 1e9))


@dataclass
class Reading:
    """Counts the bytes of long header lines that are read as JSON."""

    size: int = 0

    def read(
        self, data: bytes, longest: int = MAX_HEADER_BYTES, wire: WireVersions = OWN
    ) -> Envelope:
        line = data.find(b"\n")
        if line > SHORT:  # the cost of others is in that of handling them
            self.size += line
        return decode(data, longest, wire)

    def taken(self) -> int:
        size, self.size = self.size, 0
        return size


@dataclass
class Talker:
    """A device that reports at given moments and notes how long each receipt took."""

    name: DeviceId
    broker: InMemoryBroker
    moments: list[float]
    hostile: bytes = b""
    """What it sends instead of reports."""
    waited: list[float] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self._sender = Sender(FLEET, self.name, BootId.fresh())
        self.connection = self.broker.connection(f"{self.name}.control")
        self.connection.subscribe(*TOPICS.to_device(self.name, "rcpt"))
        self.connection.start()

    def speak(self, now: float) -> None:
        """Send everything that is due."""
        while self.sent < len(self.moments) and self.moments[self.sent] <= now:
            classes = {ClassName(f"class-{self.sent}"): 1}
            body = Transition(stage=1, number=self.sent, why="class name", classes=classes)
            data = self.hostile or encode(self._sender.seal(body, sent_ms=0))
            self.connection.publish(OutgoingMessage(TOPICS.up(self.name, "msg"), data))
            self.sent += 1

    def listen(self, now: float) -> None:
        """Take the receipts that have come."""
        while (event := self.connection.next_event(0)) is not None:
            if not isinstance(event, IncomingMessage):
                continue
            self.connection.acknowledge(event)
            receipt = decode(event.payload).read(Receipt)
            if isinstance(receipt.answer, Accepted):
                self.waited.append(now - self.moments[receipt.key.part])

    @property
    def next_moment(self) -> float:
        return self.moments[self.sent] if self.sent < len(self.moments) else float("inf")


@contextmanager
def coordinator_by(
    home: Path, broker: InMemoryBroker, clock: Clock, intake: IntakeRules
) -> Iterator[MemoryCoordinator]:
    rules = Rules(
        stages=StageRules(quiet_seconds=1e6, deadline_seconds=1e6),
        intake=intake,
    )
    coordinator = MemoryCoordinator(home, broker, rules, clock=clock)
    try:
        yield coordinator
    finally:
        coordinator.close()


def waits_of_the_quiet(
    home: Path,
    *,
    loud: bool,
    intake: IntakeRules = INTAKE,
    hostile: bytes = b"",
    reading: Reading | None = None,
) -> list[float]:
    """Return how long each receipt of the quiet devices took, sorted."""
    reading = reading or Reading()
    write_home(home)
    broker, time = InMemoryBroker(max_queued=100_000), Passing()
    admitting = MemoryCoordinator(home, broker)
    admitting.begin(*QUIET, LOUD, classes=("cat",))
    admitting.close()
    random = Random(1)
    talkers = [Talker(name, broker, moments(random, QUIET_PER_SECOND)) for name in QUIET]
    noise = [Talker(LOUD, broker, moments(random, LOUD_PER_SECOND), hostile)] if loud else []
    with coordinator_by(home, broker, time.clock, intake) as coordinator:
        while any(len(one.waited) < len(one.moments) for one in talkers):
            for one in (*talkers, *noise):
                one.speak(time.now)
            began = time.now
            handled, left_out = step(coordinator)
            time.now += handled * HANDLED_SECONDS + left_out * LEFT_OUT_SECONDS
            time.now += reading.taken() * READ_SECONDS
            for one in (*talkers, *noise):
                one.listen(time.now)
            if time.now == began:  # nothing was left to do; what is under way comes later
                following = min(one.next_moment for one in (*talkers, *noise))
                time.now = (
                    following if began < following < 2 * SECONDS else began + LEFT_OUT_SECONDS
                )
    return sorted(wait for one in talkers for wait in one.waited)


def moments(random: Random, per_second: float) -> list[float]:
    """Return when somebody sends, at random, so often in the mean."""
    found, now = [], 0.0
    while (now := now + random.expovariate(per_second)) < SECONDS:
        found.append(now)
    return found


def step(coordinator: MemoryCoordinator) -> tuple[int, int]:
    """Let the coordinator take one group; return how many messages it handled and left out."""
    size = coordinator.engine.ledger.size
    left_out = sum(coordinator.quotas.left_out.values())
    coordinator.shell.step(0)
    return (
        coordinator.engine.ledger.size - size,
        sum(coordinator.quotas.left_out.values()) - left_out,
    )


def p95(waits: list[float]) -> float:
    return waits[int(0.95 * len(waits))]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return waits_of_the_quiet(tmp_path_factory.mktemp("calm"), loud=False)


def test_a_device_of_ten_times_its_quota_does_not_double_the_others_p95(
    calm: list[float], tmp_path: Path
) -> None:
    noisy = waits_of_the_quiet(tmp_path, loud=True)
    assert len(calm) == len(noisy) > 400, "all of them got their receipts"
    assert p95(noisy) <= 2 * p95(calm), f"{p95(noisy):.3f} s, {p95(calm):.3f} s in a calm fleet"


def test_without_a_quota_it_would(calm: list[float], tmp_path: Path) -> None:
    noisy = waits_of_the_quiet(
        tmp_path, loud=True, intake=IntakeRules(messages_per_minute=NO_QUOTA)
    )
    assert p95(noisy) > 10 * p95(calm)


def hostile_message() -> bytes:
    """Return one of the longest header lines there can be, of a device without a key."""
    before, after = encode(
        Sender(FLEET, LOUD, BootId.fresh()).seal(Nothing(stage=1), sent_ms=0)
    ).split(b'"stage":1')
    room = (MAX_HEADER_BYTES - len(before) - len(after)) // 12
    keys = b",".join(b'"k%06x":0' % number for number in range(room - 2))
    return before + keys + b',"k000000":1' + after


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    found = Reading()
    monkeypatch.setattr("fleetledger.coordinator.program.authenticator.decode", found.read)
    monkeypatch.setattr("fleetledger.coordinator.program.message_reader.decode", found.read)
    return found


def test_a_device_whose_messages_are_costly_does_not_double_the_others_p95(
    calm: list[float], tmp_path: Path, reading: Reading
) -> None:
    noisy = waits_of_the_quiet(tmp_path, loud=True, hostile=hostile_message(), reading=reading)
    assert len(calm) == len(noisy) > 400, "all of them got their receipts"
    assert p95(noisy) <= 2 * p95(calm), f"{p95(noisy):.3f} s, {p95(calm):.3f} s in a calm fleet"


@pytest.mark.nightly
def test_without_a_quota_of_what_is_read_it_would(
    calm: list[float], tmp_path: Path, reading: Reading
) -> None:
    intake = IntakeRules(messages_per_minute=NO_QUOTA, json_mib_per_minute=NO_QUOTA // 10)
    noisy = waits_of_the_quiet(
        tmp_path, loud=True, intake=intake, hostile=hostile_message(), reading=reading
    )
    assert p95(noisy) > 10 * p95(calm)
