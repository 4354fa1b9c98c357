"""The report of one rollout, made of what happened in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fleetledger.coordinator.core.phrases import count_of, natural
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.reports.rollouts import report, sentences
from fleetledger.coordinator.reports.rollouts.curves import OLD, Grown, curves, grown
from fleetledger.coordinator.reports.rollouts.rollout_waits import OpenGroup, rollout_wait
from fleetledger.coordinator.reports.rollouts.story import GroupStory, MeasuredThen, RolloutStory
from fleetledger.coordinator.reports.rollouts.verdicts import decided_by, verdict_told
from fleetledger.coordinator.topics.rollouts.membership import KnownDevice, Membership, membership

_DONE = {"settled", "failed", "refused", "rolled_back"}
_HEARD = {"switched", "unreached"}
_ENDED = {"rolled_back", "finished", "aborted", "superseded"}
_STEPS_OF_ENDS = {
    "rolled_back": "Went back",
    "aborted": "Aborted",
    "superseded": "Superseded",
}


@dataclass(frozen=True)
class DeviceCounts:
    """Devices of which the same became."""

    ran: int
    """That have ever run the version."""
    failed: int
    unreached: int
    group: OpenGroup
    """Those of the group that is open."""


def summary(
    story: RolloutStory,
    who: Membership,
    waits: report.Waits | None,
    counts: DeviceCounts,
    now_ns: int,
) -> report.RolloutSummary:
    """Return a rollout as it stands in a list."""
    newest, planned = story.newest, story.planned
    return report.RolloutSummary(
        number=planned.rollout,
        version=planned.version,
        former=planned.former,
        stage=story.stage,
        sentence=sentences.headline(story, who, waits, counts.ran),
        group=None if newest is None else newest.number,
        groups=len(planned.plan.groups),
        devices=0 if newest is None else who.up_to(newest.number),
        ran=counts.ran,
        failed=counts.failed,
        unreached=counts.unreached,
        waits_for=waits,
        evidence=decided_by(story) if story.stage == "paused" else "",
        since=story.last.time_ns,
        wait=rollout_wait(story, who, waits, counts.group, now_ns),
        automatic=planned.automatic,
        planned=story.rollout.turns[0].time_ns,
        planned_index=story.rollout.index,
        newest_index=story.last.index,
    )


def made_report(
    state: State,
    story: RolloutStory,
    devices: Iterable[KnownDevice],
    waits: report.Waits | None,
    now_ns: int,
) -> report.RolloutReport:
    """Return everything that is known of a rollout."""
    who = membership(story.rollout, devices)
    lines, evidence = device_lines(story, who), _evidence(story)
    until = story.last.time_ns if story.stage in _ENDED else story.last_ns
    if story.stage in {"running", "soaking"}:  # one that stands would draw its past ever narrower
        until = max(now_ns, until)
    old = max((len(found) - (OLD in found) for found in evidence.values()), default=0)
    return report.RolloutReport(
        rollout=summary(story, who, waits, _counted(story, lines), now_ns),
        lead=sentences.lead(story, lines, _new_classes(state, story)),
        plan=story.planned.plan,
        steps=tuple(_steps(story, who)),
        verdict=verdict_told(story, evidence),
        groups=tuple(_group(story, lines, group) for group in story.groups.values()),
        rules=sentences.rules(story.planned.plan.gates, story.planned.former, old),
        gates=tuple(_gates(story)),
        evidence=tuple(_shown(group, found) for group, found in evidence.items()),
        exposure=_exposure(story, who, until),
        counts=dict(Counter(line.stage for line in lines)),
        devices=lines,
    )


def _counted(story: RolloutStory, lines: Iterable[report.RolloutDevice]) -> DeviceCounts:
    stages, newest = Counter(line.stage for line in lines), story.newest
    members = [line for line in lines if newest is not None and line.group == newest.number]
    shadow = newest is not None and newest.phases[-1].mode == "shadow"
    return DeviceCounts(
        group=OpenGroup(
            settling_ns=tuple(one.since or 0 for one in members if one.stage == "switched"),
            unheard=tuple(
                one.device
                for one in members
                if one.stage not in _HEARD and not _is_done(story, one, shadow=shadow)
            ),
            failed=sum(one.stage in {"failed", "refused"} for one in members),
        ),
        ran=sum(line.ran for line in lines),
        failed=stages["failed"] + stages["refused"],
        unreached=stages["unreached"],
    )


def device_lines(story: RolloutStory, who: Membership) -> tuple[report.RolloutDevice, ...]:
    """Return what became of each device, by group, then by name."""
    opened = {group.number for group in story.opened}
    lines = []
    for name, group in who.group_of.items():
        known = story.devices.get(name)
        offered = group is not None and group in opened
        line = report.RolloutDevice(
            device=name,
            group=group,
            stage="offered" if offered else "waiting" if group is not None else "excluded",
            ran=known is not None and known.first_ran_ns is not None,
        )
        if known is not None and known.stage is not None:
            said = {"stage": known.stage, "reason": known.reason}
            line = line.model_copy(update={**said, "since": known.time_ns, "index": known.index})
        lines.append(line)
    apart = [
        report.RolloutDevice(
            device=name,
            group=None,
            stage=stage,
            ran=name in story.devices and story.devices[name].first_ran_ns is not None,
        )
        for name, stage in who.apart.items()
    ]
    far = len(story.planned.plan.groups) + 1
    return tuple(
        sorted([*lines, *apart], key=lambda line: (line.group or far, natural(line.device)))
    )


def _evidence(story: RolloutStory) -> dict[int, dict[str, Grown]]:
    """Return evidence by the end of each group: it is pooled over the groups before it."""
    found = {}
    opened = story.opened
    for place, group in enumerate(opened):
        last = place + 1 == len(opened)
        end = None if last else opened[place + 1].phases[0].index
        reports = [one for one in story.reports if end is None or one.index < end]
        if reports:
            found[group.number] = grown(reports, story.planned.plan.gates)
    return found


def _shown(group: int, found: dict[str, Grown]) -> report.GroupEvidence:
    old, classes = curves(found)
    return report.GroupEvidence(group=group, retention=old, classes=classes)


def _steps(story: RolloutStory, who: Membership) -> Iterable[report.RolloutStep]:
    first, ended = story.own[story.rollout.index], story.stage in _ENDED
    approval = story.own.get(story.rollout.approved.get(1, -1))
    yield report.RolloutStep(
        title="Planned",
        text="by the fleet itself" if story.planned.automatic else _by(first.actor),
        state="done",
        time=first.time_ns,
        index=first.index,
    )
    if story.planned.plan.approve == "operator":
        yield report.RolloutStep(
            title="Approved",
            text="not yet" if approval is None else _by(approval.actor),
            state="ahead" if approval is None else "done",
            time=None if approval is None else approval.time_ns,
            index=None if approval is None else approval.index,
        )
    for group in story.groups.values():
        yield _step(story, who, group)
    last = story.last
    title = _STEPS_OF_ENDS.get(story.stage, "Finished")
    if ended:
        state = "done" if story.stage == "finished" else "stands"
        yield report.RolloutStep(
            title=title, text="", state=state, time=last.time_ns, index=last.index
        )
    else:
        yield report.RolloutStep(title=title, text="", state="ahead")


def _step(story: RolloutStory, who: Membership, group: GroupStory) -> report.RolloutStep:
    number, newest = group.number, story.newest
    devices = count_of(len(who.of(number)))
    if not group.phases and newest is not None and newest.number > number:
        return report.RolloutStep(title=f"Group {number}", text="has nobody else", state="done")
    if not group.phases:
        return report.RolloutStep(
            title=f"Group {number}", text=f"{devices}, not begun", state="ahead"
        )
    is_newest = newest is not None and newest.number == number
    if not is_newest:
        measured = group.measured[-1] if group.measured else None
        return report.RolloutStep(
            title=f"Group {number}",
            text=f"{devices}, passed" if measured is not None else devices,
            state="done",
            time=group.phases[-1].time_ns if measured is None else measured.time_ns,
            index=group.phases[-1].index if measured is None else measured.index,
        )
    return _newest_step(story, group, devices)


def _newest_step(story: RolloutStory, group: GroupStory, devices: str) -> report.RolloutStep:
    last, shadow = story.last, group.phases[-1].mode == "shadow"
    word = {
        "paused": "paused",
        "soaking": "soaking",
        "running": "measured in the shadow" if shadow else "running",
        "rolled_back": "failed",
        "finished": "passed",
    }.get(story.stage, "ended")
    stands = story.stage in {"paused", "rolled_back"}
    over = story.stage in _ENDED
    return report.RolloutStep(
        title=f"Group {group.number}, {word}" if not over or stands else f"Group {group.number}",
        text=devices if not over or stands else f"{devices}, {word}",
        state="stands" if story.stage == "paused" else "done" if over else "now",
        time=last.time_ns,
        index=last.index,
    )


def _by(actor: str) -> str:
    kind, _, name = actor.partition(":")
    return f"by {name or kind}"


def _group(
    story: RolloutStory, lines: tuple[report.RolloutDevice, ...], group: GroupStory
) -> report.RolloutGroup:
    number = group.number
    members = [line for line in lines if line.group == number]
    shadow = bool(group.phases) and group.phases[-1].mode == "shadow"
    measured = group.measured[-1] if group.measured else None
    return report.RolloutGroup(
        number=number,
        size=sentences.size_of(story.planned.plan.groups[number - 1]),
        stage=_group_stage(story, group, measured),
        mode=group.phases[-1].mode if group.phases else None,
        devices=len(members),
        done=sum(_is_done(story, line, shadow=shadow) for line in members),
        unreached=sum(line.stage == "unreached" for line in members),
        opened=group.phases[0].time_ns if group.phases else None,
        opened_index=group.phases[0].index if group.phases else None,
        approved_index=story.rollout.approved.get(number),
        measured_index=None if measured is None else measured.index,
        outcome=None if measured is None else measured.body.outcome,
        reason="" if measured is None else measured.body.reason,
    )


def _is_done(story: RolloutStory, line: report.RolloutDevice, *, shadow: bool) -> bool:
    if line.stage in _DONE:
        return True
    known = story.devices.get(line.device)
    return shadow and known is not None and known.shadowed


def _group_stage(
    story: RolloutStory, group: GroupStory, measured: MeasuredThen | None
) -> report.GroupStage:
    if not group.phases:
        return "ahead"
    if story.newest is not group or story.stage == "finished":
        return "passed"
    if story.stage in {"paused", *_ENDED}:
        return "stopped"
    passed = measured is not None and measured.body.outcome == "pass"
    over = passed and measured is not None and measured.body.mode == "run"
    return "passed" if over and story.stage == "soaking" else "open"


def _gates(story: RolloutStory) -> Iterable[report.GateLine]:
    for group in story.groups.values():
        if not group.measured:
            continue
        measured = group.measured[-1]
        for found in measured.body.gates:
            yield report.GateLine(
                **dict(found),
                group=group.number,
                short=sentences.short_of(found),
                index=measured.index,
            )


def _exposure(story: RolloutStory, who: Membership, until: int) -> report.Exposure:
    ran = sorted(one.first_ran_ns for one in story.devices.values() if one.first_ran_ns is not None)
    allowed = [
        report.ExposurePoint(
            time=next(phase.time_ns for phase in group.phases if phase.mode == "run"),
            devices=who.up_to(group.number),
            group=group.number,
        )
        for group in story.opened
        if any(phase.mode == "run" for phase in group.phases)
    ]
    words = {
        "paused": "paused",
        "rolled_back": "went back",
        "finished": "finished",
        "aborted": "aborted",
        "superseded": "superseded",
    }
    return report.Exposure(
        ran=tuple(
            report.ExposurePoint(time=time_ns, devices=count)
            for count, time_ns in enumerate(ran, 1)
        ),
        allowed=tuple(allowed),
        marks=tuple(
            report.ExposureMark(time=turn.time_ns, text=words[turn.stage], index=turn.index)
            for turn in story.rollout.turns
            if turn.stage in words
        ),
        until=until,
    )


def _new_classes(state: State, story: RolloutStory) -> tuple[str, ...]:
    """Return the classes that the version knows and the one before does not."""
    models, planned = state.models.by_version, story.planned
    own, former = models.get(planned.version), models.get(planned.former or 0)
    if own is None or former is None:
        return ()
    known = set(former.made.class_names)
    return tuple(name for name in own.made.class_names if name not in known)
