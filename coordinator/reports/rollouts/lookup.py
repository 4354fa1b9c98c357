"""Lookup of rollouts in the ledger, and of what a person has to do about them."""

from __future__ import annotations

from itertools import chain

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.rollouts.report import RolloutReport, RolloutSummary, Waits
from fleetledger.coordinator.reports.rollouts.report_maker import DeviceCounts, made_report, summary
from fleetledger.coordinator.reports.rollouts.rollout_waits import OpenGroup
from fleetledger.coordinator.reports.rollouts.story import RolloutStory, told
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.coordinator.topics.rollouts.entries import ModelCompared
from fleetledger.coordinator.topics.rollouts.membership import KnownDevice, Membership, membership
from fleetledger.coordinator.topics.rollouts.state import NOT_BEGUN, OPEN, Rollout
from fleetledger.schemas.values import DeviceId


def summaries(
    ledger: LedgerReader,
    now_ns: int,
    before: int | None = None,
    limit: int = 50,
    version: int | None = None,
) -> list[RolloutSummary]:
    """Return rollouts below a number, newest first; of one version where it is given."""
    rollouts = state_of(ledger).rollouts.by_number
    found = [
        rollouts[number]
        for number in sorted(rollouts, reverse=True)
        if before is None or number < before
        if version in (None, rollouts[number].planned.version)
    ]
    return _summaries(ledger, found[:limit], now_ns)


def unfinished(ledger: LedgerReader, now_ns: int) -> list[RolloutSummary]:
    """Return rollouts that something is still to come of, newest first."""
    rollouts = state_of(ledger).rollouts.by_number
    found = [rollouts[number] for number in sorted(rollouts, reverse=True)]
    return _summaries(ledger, [one for one in found if one.stage in OPEN], now_ns)


def one_rollout(ledger: LedgerReader, number: int, now_ns: int) -> RolloutReport:
    """Return everything that is known of a rollout; raise `CommandError` if there is none."""
    state = state_of(ledger)
    rollout = state.rollouts.by_number.get(number)
    if rollout is None:
        raise CommandError(
            f"rollout: {number} is none; `fleetledger rollout list` shows those that there are"
        )
    entries = sorted(
        (*ledger.at(rollout.entries), *_reports(ledger, state, number)), key=lambda one: one.index
    )
    story = told(rollout, entries)
    return made_report(state, story, known_devices(state), _waits(ledger, story), now_ns)


def _reports(ledger: LedgerReader, state: State, number: int) -> list[Entry]:
    """Return what devices said of the version of a rollout, or of what that went back to."""
    rollouts = state.rollouts
    compared = ledger.find(
        ModelCompared,
        start=rollouts.by_number[number].index + 1,
        where={"comparison.rollout": number},
    )
    statuses = (
        ledger.find(
            DeviceModelStatus, start=since + 1, stop=until, where={"status.version": version}
        )
        for version, since, until in rollouts.heard(number)
    )
    return sorted(chain(compared, *statuses), key=lambda one: one.index)


def active_rollout(state: State) -> tuple[int, int] | None:
    """Return number and version of the rollout that has begun and has not ended; None without."""
    active = state.rollouts.active
    return None if active is None else (active.number, active.planned.version)


def rollout_of(ledger: LedgerReader, device: DeviceId) -> int | None:
    """Return the newest rollout that a device said something in; None where there is none."""
    rollouts = state_of(ledger).rollouts
    compared = rollouts.compared.get(device, {}).items()
    at, found = max(((said.index, key.stage) for key, said in compared), default=(-1, None))
    statuses = list(ledger.find(DeviceModelStatus, device=device, start=at + 1))
    for said in reversed(statuses):
        number = rollouts.heard_by(said.body["status"]["version"], said.index)
        if number is not None:
            return number
    return found


def known_devices(state: State) -> list[KnownDevice]:
    """Return every admitted device, with what decides whether a rollout is about it."""
    pins = state.models.pins
    return [
        KnownDevice(
            name,
            device.tags,
            pins.get(name),
            revoked=state.keys.of(name).revoked or not device.led,
        )
        for name, device in state.devices.admitted.items()
    ]


def _waits(ledger: LedgerReader, story: RolloutStory) -> Waits | None:
    """Return the same, a release key's signature among it."""
    found = waits_for(story)
    if found is not None or story.stage != "running" or story.newest is None:
        return found
    waiting = {push.rollout for push in release_views.waiting(ledger)}
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
    approved = following in story.rollout.approved or following > len(plan.groups)
    if plan.approve == "operator" and due and not approved:
        return "approval"
    return "start" if story.stage in NOT_BEGUN else None


def _summaries(ledger: LedgerReader, rollouts: list[Rollout], now_ns: int) -> list[RolloutSummary]:
    """Return them as they stand in a list, without reading what each device reported."""
    state = state_of(ledger)
    devices = known_devices(state) if rollouts else []
    found = []
    for rollout in rollouts:
        story = told(rollout, ledger.at(rollout.entries))
        version = rollout.planned.version
        said = [
            one
            for one in _reports(ledger, state, rollout.number)
            if one.kind != DeviceModelStatus.kind or _status(one)["version"] == version
        ]
        who = membership(rollout, devices)
        counts = _counts(story, who, said)
        found.append(summary(story, who, _waits(ledger, story), counts, now_ns))
    return found


def _status(entry: Entry) -> dict[str, object]:
    found: dict[str, object] = entry.body["status"]
    return found


def _last(said: list[Entry]) -> dict[str, Entry]:
    """Return the last entry on what became of the version, by device."""
    return {str(one.device): one for one in said if one.kind == DeviceModelStatus.kind}


def _counts(story: RolloutStory, who: Membership, said: list[Entry]) -> DeviceCounts:
    statuses = [one for one in said if one.kind == DeviceModelStatus.kind]
    unreached = story.unreached - {str(one.device) for one in said}
    return DeviceCounts(
        ran=len({one.device for one in statuses if _status(one)["state"] in {"active", "settled"}}),
        failed=sum(_status(one)["state"] == "failed" for one in _last(said).values()),
        unreached=len(unreached),
        group=_open_group(story, who, said, unreached),
    )


def _open_group(
    story: RolloutStory, who: Membership, said: list[Entry], unreached: set[str]
) -> OpenGroup:
    if story.newest is None:
        return OpenGroup()
    last = _last(said)
    answered = {name for name, one in last.items() if _status(one)["state"] != "shadowing"}
    if story.newest.phases[-1].mode == "shadow":
        answered |= {str(one.device) for one in said if one.kind == ModelCompared.kind}
    members = [name for name in who.of(story.newest.number) if name not in unreached]
    told = [last[name] for name in members if name in last]
    return OpenGroup(
        settling_ns=tuple(one.time_ns for one in told if _status(one)["state"] == "active"),
        unheard=tuple(name for name in members if name not in answered),
        failed=sum(_status(one)["state"] == "failed" for one in told),
    )
