"""Waits of models: a version behind a rollout, and contributions for the next version."""

from __future__ import annotations

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.snapshot import CoordinatorNow, LiveSnapshot, serves
from fleetledger.coordinator.reports.rollouts.lookup import active_rollout
from fleetledger.coordinator.reports.waits import Wait
from fleetledger.runtime.count_words import agree
from fleetledger.runtime.times import clock_time


def model_waits(ledger: LedgerReader, live: LiveSnapshot | None, time_ns: int) -> tuple[Wait, ...]:
    """Return both waits, those that there are."""
    both = version_wait(ledger, live, time_ns), contributions_wait(ledger, live, time_ns)
    return tuple(filter(None, both))


def version_wait(
    ledger: LedgerReader, live: LiveSnapshot | None, time_ns: int, version: int | None = None
) -> Wait | None:
    """Return what keeps a version from going out by itself, any where none is named.

    None where nothing does.
    """
    now, rollout = _serving(live, time_ns), active_rollout(state_of(ledger))
    if now is None or now.waiting_version is None or rollout is None:
        return None
    if version not in {None, now.waiting_version}:
        return None
    return Wait(
        sentence=f"Model {now.waiting_version} waits until rollout {rollout[0]} of model "
        f"{rollout[1]} ends, and goes out by itself then."
    )


def contributions_wait(
    ledger: LedgerReader, live: LiveSnapshot | None, time_ns: int
) -> Wait | None:
    """Return what contributions wait for that no version is made of; None where none does."""
    now = _serving(live, time_ns)
    if now is None or now.next_model_ns is None:
        return None
    state = state_of(ledger)
    newest = state.models.newest
    version = None if newest is None else newest.version
    since_index = 0 if newest is None else newest.solved.ledger_size
    counted = state.contributions.counted
    came = [i for i in counted.since(since_index) if i >= since_index and counted.is_counted(i)]
    parts, devices = len(came), len({counted[i].device for i in came})
    due = now.next_model_ns
    when = "now" if due <= time_ns else f"at {clock_time(due, time_ns)} at the earliest"
    until = due if due > time_ns else None
    if not parts:
        since = "" if version is None else f" since model {version}"
        text = f"What counts has changed{since}: the next model is made {when}."
        return Wait(sentence=text, until=until)
    return Wait(
        sentence=f"{count_of(parts, 'contribution')} of {count_of(devices)} "
        f"{agree(parts, 'waits', 'wait')} for the next model, which is made {when}.",
        until=until,
    )


def _serving(live: LiveSnapshot | None, time_ns: int) -> CoordinatorNow | None:
    return live.coordinator if live is not None and serves(live.coordinator, time_ns) else None
