"""A second coordinator of a fleet is noticed by both; devices give nothing until one is left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.schemas.envelope import Sender, encode
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import CoordinatorBirth
from fleetledger.schemas.receipts import Later, Receipt
from fleetledger.schemas.values import BootId
from fleetledger.transport.interface import OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.program.test_shell import samples
from tests.coordinator.shell_harness import (
    COORDINATOR,
    FLEET,
    PATIENCE,
    TOPICS,
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

Found = TypeVar("Found", bound=Message)


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


@pytest.fixture
def first(tmp_path: Path, broker: InMemoryBroker) -> Iterator[MemoryCoordinator]:
    write_home(tmp_path / "first", map_width=8, form="exact")
    made = MemoryCoordinator(tmp_path / "first", broker)
    made.begin("dev-1", classes=("circle", "square"))
    yield made
    made.close()


def copied(home: Path, broker: InMemoryBroker) -> MemoryCoordinator:
    shutil.copytree(home, home.parent / "copy")
    return MemoryCoordinator(home.parent / "copy", broker, run="-2")


def beside(coordinator: MemoryCoordinator) -> str:
    return coordinator.engine.core.live.beside


def until(condition: Callable[[], object], *coordinators: MemoryCoordinator) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        for one in coordinators:
            one.shell.step(0.01)


def test_both_name_both_and_take_nothing_in_until_one_is_left(
    first: MemoryCoordinator, broker: InMemoryBroker
) -> None:
    assert not beside(first)
    second = copied(first.home, broker)
    until(lambda: beside(first) and beside(second), first, second)
    runs = {str(one.shell._parts.sender.boot) for one in (first, second)}
    for one in (first, second):
        assert all(run in beside(one) for run in runs)
        assert "a copy of this home" in beside(one)

    device = ScriptedDevice("dev-1", broker, first)
    lineage = first.engine.core.state.lineages.current
    assert lineage is not None
    given = samples(1, 40, int(lineage.feature_width))
    body, payload = contribution_of(first, *given, part=0)
    device.send(body, payload)

    def heard(kind: type[Found]) -> list[Found]:
        device._drain()
        return [item.read(kind) for item in device.received if item.header.kind == kind.kind]

    until(lambda: len(heard(Receipt)) >= 2, first, second)
    answers = [receipt.answer for receipt in heard(Receipt)]
    assert all(isinstance(answer, Later) for answer in answers)
    assert ContributionAccepted.kind not in first.kinds() + second.kinds()
    assert heard(CoordinatorBirth)[-1].beside

    second.shell.say_goodbye()
    second.close()
    until(lambda: not beside(first), first)
    device.send(body, payload)
    first.until(lambda: ContributionAccepted.kind in first.kinds())
    device.close()


def test_another_fleet_of_the_same_name_is_told_by_its_key(
    first: MemoryCoordinator, broker: InMemoryBroker, tmp_path: Path
) -> None:
    write_home(tmp_path / "other", map_width=8, form="exact")
    other = MemoryCoordinator(tmp_path / "other", broker, run="-2")
    until(lambda: beside(first) and beside(other), first, other)
    assert "another fleet has this one's name" in beside(first)
    assert "another fleet has this one's name" in beside(other)
    other.shell.say_goodbye()
    other.close()
    until(lambda: not beside(first), first)


def test_the_run_before_is_no_other_one(tmp_path: Path, broker: InMemoryBroker) -> None:
    write_home(tmp_path, map_width=8, form="exact")
    for _ in range(2):  # the first one ends without a word
        run = MemoryCoordinator(tmp_path, broker)
        for _ in range(20):
            run.shell.step(0.02)
        assert not beside(run)
        run.close()


def test_late_words_of_a_run_that_is_over_stop_nobody(
    tmp_path: Path, broker: InMemoryBroker
) -> None:
    write_home(tmp_path, map_width=8, form="exact")
    run = MemoryCoordinator(tmp_path, broker)
    other = broker.connection("late")
    other.start()
    over = Sender(FLEET, COORDINATOR, BootId.fresh(), signer=coordinator_key(tmp_path, FLEET))
    topic = TOPICS.coordinator_state
    birth = over.seal(CoordinatorBirth(ledger_size=1), topic=topic, sent_ms=1)
    other.publish(OutgoingMessage(topic, encode(birth), qos=1, retain=False))
    boot = over.boot
    until(lambda: boot in run.shell._rivals.asked, run)
    for _ in range(20):
        run.shell.step(0.02)
    assert not beside(run)
    answer = CoordinatorBirth(ledger_size=1, heard=(run.shell._parts.sender.boot,))
    alive = over.seal(answer, topic=topic, sent_ms=2)
    other.publish(OutgoingMessage(topic, encode(alive), qos=1, retain=False))
    until(lambda: beside(run), run)
    run.close()
