"""Waits of models: a version behind a rollout, and contributions for the next version."""

from __future__ import annotations

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.core.formatting import count_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.snapshot import CoordinatorNow, LiveSnapshot, serves
from fleetledger.coordinator.reading.rollouts.finding import active_rollout
from fleetledger.coordinator.reading.waits import Wait
from fleetledger.schemas.counted import agree
from fleetledger.schemas.times import clock_time


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
    newest = state_of(ledger).models.newest
    version = None if newest is None else newest.version
    since_index = 0 if newest is None else newest.solved.ledger_size
    parts, devices = ledger.db.execute(_SINCE, [since_index]).fetchone()
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


_SINCE = """
SELECT count(*), count(DISTINCT device) FROM contribution WHERE state = 'held' AND idx >= ?
    AND idx NOT IN (SELECT idx FROM set_aside WHERE until IS NULL)
    AND idx NOT IN (SELECT idx FROM left_out_part WHERE until IS NULL)
"""
"""What came after the sum that the newest model was solved of."""
