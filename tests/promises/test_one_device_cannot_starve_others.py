"""Promise 9: a device that sends ten times its quota does not double the others' waiting.

By a clock that passes as the coordinator works: a message that is handled costs ten milliseconds,
and one that is left out a tenth of that. `python -m tests.promises.quota` does the same in real
time, over a real Mosquitto.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from coordinator.core.rules import IntakeRules, Rules, StageRules
from schemas.envelope import Sender, decode, encode
from schemas.receipts import Accepted, Receipt
from schemas.reports import Transition
from schemas.values import BootId, ClassName, DeviceId
from tests.coordinator.shell_harness import FLEET, TOPICS, MemoryCoordinator, write_home
from transport.clock import Clock
from transport.interface import Outgoing, Received
from transport.memory import InMemoryBroker

QUIET = tuple(DeviceId(f"quiet-{number}") for number in range(9))
LOUD = DeviceId("loud")
QUIET_PER_SECOND, LOUD_PER_SECOND = 5.0, 100.0
QUOTA = 600
"""Messages per minute: a tenth of what the loud device sends."""
NO_QUOTA = 10_000_000
HANDLED_SECONDS, LEFT_OUT_SECONDS = 0.01, 0.001
SECONDS = 10.0


@dataclass
class Passing:
    """A clock that somebody moves."""

    now: float = 0.0

    @property
    def clock(self) -> Clock:
        return Clock(seconds=lambda: self.now, time_ns=lambda: 2 * 10**18 + round(self.now * 1e9))


@dataclass
class Talker:
    """A device that reports at given moments and notes how long each receipt took."""

    name: DeviceId
    broker: InMemoryBroker
    moments: list[float]
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
            data = encode(self._sender.seal(body, sent_ms=0))
            self.connection.publish(Outgoing(TOPICS.up(self.name, "msg"), data))
            self.sent += 1

    def listen(self, now: float) -> None:
        """Take the receipts that have come."""
        while (event := self.connection.next_event(0)) is not None:
            if not isinstance(event, Received):
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
    home: Path, broker: InMemoryBroker, clock: Clock, quota: int
) -> Iterator[MemoryCoordinator]:
    rules = Rules(
        stages=StageRules(quiet_seconds=1e6, deadline_seconds=1e6),
        intake=IntakeRules(messages_per_minute=quota),
    )
    coordinator = MemoryCoordinator(home, broker, rules, clock=clock)
    try:
        yield coordinator
    finally:
        coordinator.close()


def waits_of_the_quiet(home: Path, *, loud: bool, quota: int = QUOTA) -> list[float]:
    """Return how long each receipt of the quiet devices took, sorted."""
    write_home(home)
    broker, time = InMemoryBroker(max_queued=100_000), Passing()
    admitting = MemoryCoordinator(home, broker)
    admitting.begin(*QUIET, LOUD, classes=("cat",))
    admitting.close()
    random = Random(1)
    talkers = [Talker(name, broker, moments(random, QUIET_PER_SECOND)) for name in QUIET]
    noise = [Talker(LOUD, broker, moments(random, LOUD_PER_SECOND))] if loud else []
    with coordinator_by(home, broker, time.clock, quota) as coordinator:
        while any(len(one.waited) < len(one.moments) for one in talkers):
            for one in (*talkers, *noise):
                one.speak(time.now)
            handled, left_out = step(coordinator)
            time.now += handled * HANDLED_SECONDS + left_out * LEFT_OUT_SECONDS
            for one in (*talkers, *noise):
                one.listen(time.now)
            if not handled and not left_out:
                time.now = max(time.now, min(one.next_moment for one in (*talkers, *noise)))
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
    noisy = waits_of_the_quiet(tmp_path, loud=True, quota=NO_QUOTA)
    assert p95(noisy) > 10 * p95(calm)
