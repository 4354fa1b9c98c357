"""Who was there when: spans without a gap, and the fewest of a fleet at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from fleetledger.coordinator.live.day import COORDINATOR
from fleetledger.coordinator.live.snapshot import PresenceChange
from fleetledger.coordinator.reports.presence import (
    GRACE_NS,
    SLOTS,
    PresenceSpan,
    fleet_presence,
    spans,
)

MINUTE = 60 * 10**9
DAY = 24 * 60


def told(*changes: tuple[str, float, bool]) -> list[PresenceChange]:
    found = [PresenceChange(name, int(minutes * MINUTE), here) for name, minutes, here in changes]
    return sorted(found, key=lambda one: (one.time_ns, one.device))


def shown(changes: Sequence[PresenceChange], first: float, last: float) -> list[tuple[str, float]]:
    found = spans(changes, "dev", int(first * MINUTE), int(last * MINUTE))
    return [(one.state, one.length_ns / MINUTE) for one in found]


def test_a_device_is_there_until_it_goes() -> None:
    day = told((COORDINATOR, 0, True), ("dev", 1, True), ("dev", 61, False), ("dev", 71, True))
    assert shown(day, 0, 100) == [("unknown", 1), ("here", 60), ("away", 10), ("here", 29)]
    assert shown(day, 30, 65) == [("here", 31), ("away", 4)]


def test_nobody_knows_while_no_coordinator_is_connected() -> None:
    day = told(
        (COORDINATOR, 0, True),
        ("dev", 0, True),
        (COORDINATOR, 10, False),
        (COORDINATOR, 30, True),
        ("dev", 31, True),
    )
    assert shown(day, 0, 40) == [("here", 10), ("unknown", 21), ("here", 9)]


def test_who_is_not_heard_of_after_a_restart_is_away_after_a_while() -> None:
    day = told((COORDINATOR, 0, True), ("dev", 0, True), (COORDINATOR, 10, True))
    grace = GRACE_NS / MINUTE
    assert shown(day, 0, 40) == [("here", 10), ("unknown", grace), ("away", 30 - grace)]
    late = [*day, *told(("dev", 30, True))]
    assert shown(late, 0, 40)[-2:] == [("away", 20 - grace), ("here", 10)]


NAMES = (COORDINATOR, "dev", "other")
days = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(-100, DAY), st.booleans()), max_size=30
).map(lambda rows: told(*{(name, at): (name, at, here) for name, at, here in rows}.values()))


def state_at(found: Sequence[PresenceSpan], time_ns: int) -> str:
    return next(one.state for one in found if one.first_ns <= time_ns < one.last_ns)


@given(days)
def test_spans_have_no_gap_and_neighbours_differ(day: list[PresenceChange]) -> None:
    found = spans(day, "dev", 0, DAY * MINUTE)
    assert (found[0].first_ns, found[-1].last_ns) == (0, DAY * MINUTE)
    for one, other in itertools.pairwise(found):
        assert one.last_ns == other.first_ns
        assert one.state != other.state


@given(days)
def test_the_fleet_is_counted_as_its_devices_are(day: list[PresenceChange]) -> None:
    """The slow way looks at each device in each minute; the fewest of five are a slot's."""
    found = fleet_presence(day, ["dev", "other", "never"], 0, DAY * MINUTE)
    each = [spans(day, name, 0, DAY * MINUTE) for name in ("dev", "other")]
    nobody = spans(day, "never", 0, DAY * MINUTE)
    for slot in range(SLOTS):
        counts = [
            sum(state_at(one, minute * MINUTE) == "here" for one in each)
            for minute in range(5 * slot, 5 * slot + 5)
            if state_at(nobody, minute * MINUTE) == "away"
        ]
        assert found.here[slot] == min(counts, default=None)
    assert len(found.hours) == 24
    assert found.hours[3] == (3 * 60 * MINUTE, min(_known(found.here[36:48]), default=None))


def _known(counts: Sequence[int | None]) -> list[int]:
    return [count for count in counts if count is not None]
