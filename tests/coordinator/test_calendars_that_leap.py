"""A coordinator whose calendar leaps by a year: nothing expires, and order is the ledger's."""

from pathlib import Path

import pytest

from coordinator.core.entries import StageClosed, TransitionReported
from coordinator.core.rules import Rules, StageRules
from schemas.receipts import Receipt
from schemas.reports import Transition
from schemas.values import ClassName
from tests.coordinator.shell_harness import MemoryCoordinator, ScriptedDevice, write_home
from transport.clock import Clock, steady_time
from transport.memory import InMemoryBroker

YEAR = 365 * 24 * 3600
NOW_NS = 1_800_000_000 * 10**9
RULES = Rules(stages=StageRules(quiet_seconds=3600, deadline_seconds=3600))


class Calendar:
    """A calendar that somebody sets, beside a clock that goes on."""

    def __init__(self) -> None:
        self.leaped = 0
        self.passed = 0.0

    def clock(self) -> Clock:
        steady = steady_time(Clock(seconds=self._seconds, time_ns=self._time_ns))
        return Clock(seconds=self._seconds, time_ns=steady)

    def _seconds(self) -> float:
        self.passed += 0.05  # every look takes a moment
        return self.passed

    def _time_ns(self) -> int:
        return NOW_NS + self.leaped * 10**9 + round(self.passed * 1e9)


def report(number: int) -> Transition:
    classes = {ClassName(f"new-{number}"): 1}
    return Transition(stage=1, number=number, why="class name", classes=classes)


@pytest.mark.parametrize("leaps", [(YEAR, -YEAR), (-YEAR, YEAR), (-2 * YEAR, YEAR)])
def test_a_calendar_that_is_set_while_it_runs_changes_nothing(
    tmp_path: Path, leaps: tuple[int, int]
) -> None:
    write_home(tmp_path)
    broker, calendar = InMemoryBroker(), Calendar()
    coordinator = MemoryCoordinator(tmp_path, broker, RULES, clock=calendar.clock())
    device = ScriptedDevice("camera-1", broker, coordinator)
    coordinator.begin("camera-1", classes=("cat",))
    for number, leap in enumerate((0, *leaps)):
        calendar.leaped += leap
        device.send(report(number))
        device.wait_for(Receipt, count=number + 1)
    check(coordinator, reports=3)
    device.close()
    coordinator.close()


def test_a_calendar_that_went_back_while_it_was_away_does_not_hold_anything_up(
    tmp_path: Path,
) -> None:
    write_home(tmp_path)
    broker, calendar = InMemoryBroker(), Calendar()
    coordinator = MemoryCoordinator(tmp_path, broker, RULES, clock=calendar.clock())
    coordinator.begin("camera-1", classes=("cat",))
    coordinator.close()
    calendar.leaped -= YEAR
    coordinator = MemoryCoordinator(tmp_path, broker, RULES, clock=calendar.clock())
    device = ScriptedDevice("camera-1", broker, coordinator)
    device.send(report(0))
    device.wait_for(Receipt)
    check(coordinator, reports=1)
    calendar.passed += 3600
    coordinator.until(lambda: StageClosed.kind in coordinator.kinds())
    device.close()
    coordinator.close()


def check(coordinator: MemoryCoordinator, reports: int) -> None:
    entries = list(coordinator.engine.ledger.entries())
    times = [entry.time_ns for entry in entries]
    assert times == sorted(times)
    assert times[-1] - times[0] < 3600 * 10**9
    kinds = [entry.kind for entry in entries]
    assert kinds.count(TransitionReported.kind) == reports
    assert StageClosed.kind not in kinds, "its deadline is an hour"
