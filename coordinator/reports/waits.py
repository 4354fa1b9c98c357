"""Waits in words: what something waits for, and until when.

Each is computed from the ledger's state and the time. Commands and pages say it alike.
"""

from __future__ import annotations

from fleetledger.coordinator.core.phrases import count_of, span
from fleetledger.coordinator.live.snapshot import StageWait
from fleetledger.runtime.count_words import agree
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import IsoTime, clock_time

_SECOND_NS = 1_000_000_000


class Wait(Strict):
    """What something waits for."""

    sentence: str
    until: IsoTime | None = None
    """When the wait ends at the latest, as far as is known; None where time does not end it."""


def stage_wait(wait: StageWait, now_ns: int) -> Wait:
    """Return what closes a stage that learns from one pass."""
    latest = clock_time(wait.latest_ns, now_ns)
    quiet = span(round(wait.quiet_seconds * _SECOND_NS))
    if wait.quiet_ns is not None:
        ends = min(wait.quiet_ns, wait.latest_ns)
        enough = "Enough devices" if wait.needed < wait.expected else "All devices"
        return Wait(
            sentence=f"{enough} have answered: it closes at {clock_time(ends, now_ns)}, unless "
            f"more comes; {quiet} of quiet close it.",
            until=ends,
        )
    all_of = count_of(wait.expected)
    whom = all_of if wait.needed >= wait.expected else f"{wait.needed:,} of {all_of}"
    have = "has" if wait.expected == 1 else "have"
    away = ""
    if wait.away_seconds is not None and wait.expected > 1:
        long = span(round(wait.away_seconds * _SECOND_NS))
        away = f" It does not wait for a device that is away for {long}."
    return Wait(
        sentence=f"It closes when {whom} {have} answered and nothing has come for {quiet}, or at "
        f"{latest}.{away}",
        until=wait.latest_ns,
    )


def buffer_wait(answers: int, latest_ns: int, now_ns: int) -> Wait:
    """Return what closes an asynchronous round that takes so many answers."""
    whom = f"{count_of(answers, 'answer')} {agree(answers, 'has', 'have')} come"
    return Wait(
        sentence=f"It closes when {whom}, or at {clock_time(latest_ns, now_ns)}.",
        until=latest_ns,
    )


def round_wait(asked: int, latest_ns: int, now_ns: int) -> Wait:
    """Return what closes a round that asks so many devices."""
    whom = "the device" if asked == 1 else f"all {count_of(asked)}"
    has = "has" if asked == 1 else "have"
    return Wait(
        sentence=f"It closes when {whom} that it asks {has} answered, or at "
        f"{clock_time(latest_ns, now_ns)}.",
        until=latest_ns,
    )
