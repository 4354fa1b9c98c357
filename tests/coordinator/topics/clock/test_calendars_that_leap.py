"""A coordinator whose calendar leaps by a year: nothing expires, and order is the ledger's."""

from pathlib import Path

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.rules import Rules, SilenceRules, StageRules
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.clock.commands import CorrectClock
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.keys.commands import InviteDevice
from fleetledger.coordinator.topics.keys.entries import DeviceEnrolled
from fleetledger.coordinator.topics.stages.entries import StageClosed, TransitionReported
from fleetledger.schemas.enrolment import device_key_name
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.presence import CoordinatorHeartbeat
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.transport.clock import Clock, steady_time
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import FLEET, MemoryCoordinator, ScriptedDevice, write_home

YEAR = 365 * 24 * 3600
DAY_NS = 24 * 3600 * 10**9
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


def invited(coordinator: MemoryCoordinator, calendar_ns: int) -> inputs.EnrolmentProven:
    """Make a token by the calendar as it is, for a day, and show it at once."""
    token = Digest.of(str(calendar_ns).encode())
    expires_ns = calendar_ns + DAY_NS
    camera = DeviceId("camera-2")
    coordinator.command(InviteDevice(device=camera, invitation=token, expires_ns=expires_ns))
    key = SigningKey.fresh(device_key_name(FLEET, camera)).verify_key
    return inputs.EnrolmentProven(camera, key, token)


def with_a_year_too_many(home: Path, broker: InMemoryBroker, calendar: Calendar) -> None:
    """Let a coordinator write its first entries while the calendar is a year ahead."""
    write_home(home)
    calendar.leaped += YEAR
    coordinator = MemoryCoordinator(home, broker, RULES, clock=calendar.clock())
    coordinator.begin("camera-1", classes=("cat",))
    coordinator.close()
    calendar.leaped -= YEAR


def test_a_year_too_many_once_keeps_no_device_from_enrolling(tmp_path: Path) -> None:
    broker, calendar = InMemoryBroker(), Calendar()
    with_a_year_too_many(tmp_path, broker, calendar)
    coordinator = MemoryCoordinator(tmp_path, broker, RULES, clock=calendar.clock())
    coordinator.engine.process([invited(coordinator, NOW_NS)])
    assert DeviceEnrolled.kind in coordinator.kinds()
    coordinator.close()


def test_a_token_expires_by_the_calendar_whatever_time_entries_have(tmp_path: Path) -> None:
    broker, calendar = InMemoryBroker(), Calendar()
    with_a_year_too_many(tmp_path, broker, calendar)
    coordinator = MemoryCoordinator(tmp_path, broker, RULES, clock=calendar.clock())
    proven = invited(coordinator, NOW_NS)
    calendar.passed += DAY_NS / 1e9
    coordinator.engine.process([proven])
    assert DeviceEnrolled.kind not in coordinator.kinds()
    coordinator.close()


def test_a_calendar_that_is_set_right_while_it_runs_counts_for_tokens_at_once(
    tmp_path: Path,
) -> None:
    write_home(tmp_path)
    calendar = Calendar()
    calendar.leaped += YEAR
    coordinator = MemoryCoordinator(
        tmp_path, InMemoryBroker(), RULES, clock=calendar.clock(), calendar=lambda: NOW_NS
    )
    coordinator.engine.process([invited(coordinator, NOW_NS)])
    assert DeviceEnrolled.kind in coordinator.kinds()
    coordinator.close()


def test_the_operator_sets_time_back_and_what_waits_waits_no_longer_than_before(
    tmp_path: Path,
) -> None:
    broker, calendar = InMemoryBroker(), Calendar()
    with_a_year_too_many(tmp_path, broker, calendar)
    coordinator = MemoryCoordinator(tmp_path, broker, RULES, clock=calendar.clock())
    device = ScriptedDevice("camera-1", broker, coordinator)
    device.send(report(0))
    device.wait_for(Receipt)
    assert coordinator.engine.ahead_ns > (YEAR - 60) * 10**9
    assert "time is set back by 31" in coordinator.command(CorrectClock())
    assert abs(coordinator.engine.ahead_ns) < 10**9

    coordinator.close()
    coordinator = MemoryCoordinator(tmp_path, broker, RULES, clock=calendar.clock())
    device = ScriptedDevice("camera-1", broker, coordinator)
    device.send(report(1))
    device.wait_for(Receipt)
    times = [entry.time_ns for entry in coordinator.engine.ledger.entries()]
    begin = coordinator.kinds().index(ClockCorrected.kind)
    assert all(time_ns > NOW_NS + (YEAR - 60) * 10**9 for time_ns in times[: begin + 1])
    assert all(0 <= time_ns - NOW_NS < 3600 * 10**9 for time_ns in times[begin + 1 :])
    assert StageClosed.kind not in coordinator.kinds(), "its deadline is an hour"
    calendar.passed += 3600
    coordinator.until(lambda: StageClosed.kind in coordinator.kinds())
    device.close()
    coordinator.close()
    with LedgerReader.open_read_only(ledger_path(tmp_path)) as reader:
        store = BlobStore(blob_folder(tmp_path))
        assert verify(reader, Blobs(reader, store)).ok


def test_a_calendar_that_was_behind_is_corrected_too(tmp_path: Path) -> None:
    write_home(tmp_path)
    calendar = Calendar()
    calendar.leaped -= YEAR
    coordinator = MemoryCoordinator(
        tmp_path, InMemoryBroker(), RULES, clock=calendar.clock(), calendar=lambda: NOW_NS
    )
    coordinator.begin("camera-1", classes=("cat",))
    assert "time is set forward by 31" in coordinator.command(CorrectClock())
    coordinator.command(AdmitDevice(device=DeviceId("camera-3")))
    assert abs(list(coordinator.engine.ledger.entries())[-1].time_ns - NOW_NS) < 3600 * 10**9
    assert StageClosed.kind not in coordinator.kinds(), "its deadline is an hour"
    coordinator.close()


def test_devices_take_an_earlier_time_once_it_was_corrected(tmp_path: Path) -> None:
    broker, calendar = InMemoryBroker(), Calendar()
    with_a_year_too_many(tmp_path, broker, calendar)
    rules = RULES.model_copy(update={"silence": SilenceRules(beat_seconds=3600)})
    coordinator = MemoryCoordinator(tmp_path, broker, rules, clock=calendar.clock())
    device = ScriptedDevice("camera-1", broker, coordinator)
    first = device.wait_for(CoordinatorHeartbeat)
    coordinator.command(CorrectClock())
    second = device.wait_for(CoordinatorHeartbeat, count=2)
    assert (first.corrections, second.corrections) == (0, 1)
    assert abs(second.time_ns - NOW_NS) < 3600 * 10**9
    device.close()
    coordinator.close()
