"""Finding rollouts in the ledger, and what a person has to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.entries import COLUMNS, Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reading.rollouts.making import DeviceCounts, made_report, summary
from fleetledger.coordinator.reading.rollouts.report import (
    OPEN,
    RolloutReport,
    RolloutSummary,
    Waits,
)
from fleetledger.coordinator.reading.rollouts.rollout_waits import OpenGroup
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.coordinator.topics.rollouts.membership import KnownDevice, Membership, membership
from fleetledger.coordinator.topics.rollouts.views import RolloutStory, told


@dataclass(frozen=True)
class RolloutHere:
    """A rollout, with who is in it."""

    story: RolloutStory
    devices: tuple[KnownDevice, ...]
    waits: Waits | None


def summaries(
    ledger: LedgerReader,
    now_ns: int,
    before: int | None = None,
    limit: int = 50,
    version: int | None = None,
) -> list[RolloutSummary]:
    """Return rollouts below a number, newest first; of one version where it is given."""
    rows = ledger.db.execute(
        "SELECT number FROM rollout WHERE (?1 IS NULL OR number < ?1)"
        " AND (?2 IS NULL OR version = ?2) ORDER BY number DESC LIMIT ?3",
        [before, version, limit],
    ).fetchall()
    devices = known_devices(ledger)
    return [_summary(ledger, number, devices, now_ns) for (number,) in rows]


def unfinished(ledger: LedgerReader, now_ns: int) -> list[RolloutSummary]:
    """Return rollouts that something is still to come of, newest first."""
    rows = ledger.db.execute("SELECT number, state FROM rollout ORDER BY number DESC").fetchall()
    found = [number for number, state in rows if state in OPEN]
    devices = known_devices(ledger) if found else ()
    return [_summary(ledger, number, devices, now_ns) for number in found]


def one_rollout(ledger: LedgerReader, number: int, now_ns: int) -> RolloutReport:
    """Return everything that is known of a rollout; raise `CommandError` if there is none."""
    here = rollout_here(ledger, number, known_devices(ledger))
    return made_report(ledger, here.story, here.devices, here.waits, now_ns)


def rollout_here(
    ledger: LedgerReader, number: int, devices: tuple[KnownDevice, ...]
) -> RolloutHere:
    """Return what happened in a rollout; raise `CommandError` if there is none of the number."""
    story = _told(ledger, number, "%")
    return RolloutHere(story, devices, _waits(ledger, story))


_ENTRIES = (
    f"SELECT {', '.join(f'entry.{column}' for column in COLUMNS)} FROM rollout_entry"  # noqa: S608 - names of columns
    " JOIN entry USING (idx) WHERE rollout = ? AND entry.kind LIKE ? ORDER BY idx"
)


def _told(ledger: LedgerReader, number: int, kinds: str) -> RolloutStory:
    rows = ledger.db.execute(_ENTRIES, [number, kinds]).fetchall()
    if not rows:
        raise CommandError(
            f"rollout: {number} is none; `fleetledger rollout list` shows those that there are"
        )
    return told(map(Entry.from_row, rows))


def active_rollout(ledger: LedgerReader) -> tuple[int, int] | None:
    """Return number and version of the rollout that has begun and has not ended; None without."""
    row = ledger.db.execute(
        "SELECT number, version FROM rollout WHERE state IN ('running', 'soaking', 'paused')"
        " ORDER BY number DESC LIMIT 1"
    ).fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


def rollout_of(ledger: LedgerReader, device: str) -> int | None:
    """Return the newest rollout that a device said something in; None where there is none."""
    row = ledger.db.execute(
        "SELECT rollout FROM rollout_entry JOIN entry USING (idx) WHERE device = ?"
        " ORDER BY idx DESC LIMIT 1",
        [device],
    ).fetchone()
    return None if row is None else int(row[0])


def known_devices(ledger: LedgerReader) -> tuple[KnownDevice, ...]:
    """Return every admitted device, with what decides whether a rollout is about it."""
    return tuple(_devices(ledger))


def _waits(ledger: LedgerReader, story: RolloutStory) -> Waits | None:
    """Return the same, a release key's signature among it."""
    found = waits_for(story)
    if found is not None or story.stage != "running" or story.newest is None:
        return found
    waiting = {push.rollout for push in release_views.waiting_in(ledger)}
    return "signature" if story.planned.rollout in waiting else None


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


def _summary(
    ledger: LedgerReader, number: int, devices: tuple[KnownDevice, ...], now_ns: int
) -> RolloutSummary:
    """Return one as it stands in a list, without reading what each device reported."""
    story = _told(ledger, number, "rollout.%")
    rows = (_Said(*row) for row in ledger.db.execute(_SAID, [number]))
    said = [one for one in rows if one.version in (None, story.planned.version)]
    who = membership(story, devices)
    return summary(story, who, _waits(ledger, story), _counts(story, who, said), now_ns)


class _Said(NamedTuple):
    """An entry of a device; one without a version is a comparison."""

    device: str
    version: int | None
    state: str | None
    time_ns: int


_SAID = """
SELECT entry.device, json_extract(body, '$.version'), json_extract(body, '$.state'), entry.time_ns
FROM rollout_entry JOIN entry USING (idx)
WHERE rollout = ? AND entry.device IS NOT NULL ORDER BY idx
"""
"""What devices said, in the order of the ledger; of comparisons only who sent them."""


def _counts(story: RolloutStory, who: Membership, said: list[_Said]) -> DeviceCounts:
    last = {one.device: one for one in said if one.state is not None}
    unreached = {name for group in story.groups.values() for name in group.unreached}
    unreached -= {one.device for one in said}
    return DeviceCounts(
        ran=len({one.device for one in said if one.state in {"active", "settled"}}),
        failed=sum(one.state == "failed" for one in last.values()),
        unreached=len(unreached),
        group=_open_group(story, who, said, unreached),
    )


def _open_group(
    story: RolloutStory, who: Membership, said: list[_Said], unreached: set[str]
) -> OpenGroup:
    if story.newest is None:
        return OpenGroup()
    last = {one.device: one for one in said if one.state is not None}
    answered = {name for name, one in last.items() if one.state != "shadowing"}
    if story.newest.phases[-1].mode == "shadow":
        answered |= {one.device for one in said if one.version is None}
    members = [name for name in who.of(story.newest.number) if name not in unreached]
    told = [last[name] for name in members if name in last]
    return OpenGroup(
        settling_ns=tuple(one.time_ns for one in told if one.state == "active"),
        unheard=tuple(name for name in members if name not in answered),
        failed=sum(one.state == "failed" for one in told),
    )


def _devices(ledger: LedgerReader) -> Iterator[KnownDevice]:
    state = state_of(ledger)
    pinned = state.models.pins
    for name, device in state.devices.admitted.items():
        left_out = state.keys.of(name).state == "revoked" or not device.led
        yield KnownDevice(name, device.tags, pinned.get(name), revoked=left_out)
