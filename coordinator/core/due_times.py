"""When to look again: the moments at which time alone may change what the rules decide.

A running coordinator looks several times a second. Whoever lets time pass at once goes from one of
these moments to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.proxy.rules import Proxy
from fleetledger.coordinator.topics.rollouts.moments import moments
from fleetledger.coordinator.topics.rounds.void import pause_seconds

_LATER_NS = 1000
"""A little after the moment, so that no rounding makes it too early."""


def next_due(rules: Rules, state: State, live: Live, now_ns: int) -> int | None:
    """Return the first such moment after `now_ns`; None if there is none before something comes."""
    moments = (moment + _LATER_NS for moment in _moments(rules, state, live))
    return min((moment for moment in moments if moment > now_ns), default=None)


def _moments(rules: Rules, state: State, live: Live) -> Iterator[int]:
    stage = state.stages.by_number.get(state.stages.current or 0)
    if stage is not None and stage.closed_index is None:
        yield stage.opened_ns + _ns(rules.stages.deadline_seconds)
        last = state.contributions.last_answer_ns.get(state.stages.current or 0)
        if last is not None:
            yield last + _ns(rules.stages.quiet_seconds)
        if rules.stages.away_seconds is not None:
            left = (one.away_ns for one in live.devices.values() if one.away_ns is not None)
            yield from (at + _ns(rules.stages.away_seconds) for at in left)
        if live.started_ns is not None and stage.opened_ns < live.started_ns:
            yield live.started_ns + _ns(rules.stages.gather_seconds)
    yield from _of_cohorts(rules, state, live)
    yield from _of_rounds(rules, state, live)
    yield from moments(state, live)
    if live.last_model_ns is not None:
        yield live.last_model_ns + _ns(rules.models.pause_seconds(state.models.in_a_row))
    if rules.stages.open == "reports" and state.stages.last_report_ns is not None:
        yield state.stages.last_report_ns + _ns(rules.stages.settle_seconds)


def _of_cohorts(rules: Rules, state: State, live: Live) -> Iterator[int]:
    for one in state.cohorts.joined.values():
        yield one.joined_ns + _ns(rules.privacy.wait_seconds)
    for cohort in state.cohorts.open:
        began_ns = max(cohort.began_ns, live.started_ns or 0)
        yield began_ns + _ns(rules.privacy.answer_seconds)


def _of_rounds(rules: Rules, state: State, live: Live) -> Iterator[int]:
    current = state.rounds.current
    if current is not None and current.closed is None:
        yield current.opened_ns + _ns(current.opened.deadline_seconds)
        for order in state.rounds.standing.values():
            yield order.asked_ns + _ns(rules.rounds.deadline_seconds)
    elif current is not None and current.ended_ns is not None:
        yield current.ended_ns + _ns(rules.rounds.pause_seconds)
        yield current.ended_ns + _ns(pause_seconds(rules.rounds, state.rounds.void))
    until = Proxy(rules.rounds, state, live).waits_until()
    if until is not None:
        yield until
    if state.lineages.in_rounds and live.since_ns is not None:
        yield live.since_ns + _ns(rules.rounds.gather_seconds)


def _ns(seconds: float) -> int:
    return round(seconds * NANOSECONDS)
