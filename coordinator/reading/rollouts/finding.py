"""Finding rollouts in the ledger, and what a person has to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coordinator.errors import CommandError
from coordinator.ledger.reader import LedgerReader
from coordinator.reading.rollouts.making import made_report, summary
from coordinator.reading.rollouts.report import OPEN, RolloutReport, RolloutSummary, Waits
from coordinator.reading.rollouts.story import KnownDevice, RolloutStory, membership, told
from schemas.values import DeviceId


@dataclass(frozen=True)
class RolloutHere:
    """A rollout, with who is in it."""

    story: RolloutStory
    devices: tuple[KnownDevice, ...]
    waits: Waits | None


def summaries(
    ledger: LedgerReader, before: int | None = None, limit: int = 50, version: int | None = None
) -> list[RolloutSummary]:
    """Return rollouts below a number, newest first; of one version where it is given."""
    rows = ledger.db.execute(
        "SELECT number FROM rollout WHERE (?1 IS NULL OR number < ?1)"
        " AND (?2 IS NULL OR version = ?2) ORDER BY number DESC LIMIT ?3",
        [before, version, limit],
    ).fetchall()
    devices = known_devices(ledger)
    return [_summary(ledger, number, devices) for (number,) in rows]


def unfinished(ledger: LedgerReader) -> RolloutSummary | None:
    """Return the rollout that something is still to come of; None where there is none."""
    row = ledger.db.execute("SELECT number, state FROM rollout ORDER BY number DESC").fetchone()
    if row is None or row[1] not in OPEN:
        return None
    return _summary(ledger, row[0], known_devices(ledger))


def one_rollout(ledger: LedgerReader, number: int, now_ns: int) -> RolloutReport:
    """Return everything that is known of a rollout; raise `CommandError` if there is none."""
    here = rollout_here(ledger, number, known_devices(ledger))
    return made_report(ledger, here.story, here.devices, here.waits, now_ns)


def rollout_here(
    ledger: LedgerReader, number: int, devices: tuple[KnownDevice, ...]
) -> RolloutHere:
    """Return what happened in a rollout; raise `CommandError` if there is none of the number."""
    rows = ledger.db.execute(
        "SELECT idx FROM rollout_entry WHERE rollout = ? ORDER BY idx", [number]
    ).fetchall()
    if not rows:
        raise CommandError(
            f"rollout: {number} is none; `fleetledger rollout list` shows those that there are"
        )
    story = told(ledger.entry(index) for (index,) in rows)
    return RolloutHere(story, devices, waits_for(story))


def known_devices(ledger: LedgerReader) -> tuple[KnownDevice, ...]:
    """Return every admitted device, with what decides whether a rollout is about it."""
    return tuple(_devices(ledger))


def waits_for(story: RolloutStory) -> Waits | None:
    """Return what a person has to do before a rollout goes on; None where nothing."""
    plan = story.planned.plan
    if story.stage not in OPEN or story.stage == "paused":
        return None
    newest, verdict = story.newest, story.verdict
    following = 1 if newest is None else newest.number
    passed = verdict is not None and story.stage == "soaking" and verdict.body.mode == "run"
    if newest is not None and passed:
        following += 1
    due = newest is None or passed
    if plan.approve == "operator" and due and following <= len(plan.groups):
        group = story.groups.get(following)
        if group is None or group.approved is None:
            return "approval"
    return "start" if story.started is None else None


def _summary(ledger: LedgerReader, number: int, devices: tuple[KnownDevice, ...]) -> RolloutSummary:
    here = rollout_here(ledger, number, devices)
    return summary(here.story, membership(here.story, devices), here.waits)


def _devices(ledger: LedgerReader) -> Iterator[KnownDevice]:
    rows = ledger.db.execute(
        "SELECT device.device, coalesce(device_key.state = 'revoked', 0) FROM device"
        " LEFT JOIN device_key USING (device) ORDER BY device.device"
    )
    for name, revoked in rows.fetchall():
        yield KnownDevice(DeviceId(name), revoked=bool(revoked))
