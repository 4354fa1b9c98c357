"""Rollouts in plain sentences."""

from __future__ import annotations

import math

from fleetledger.coordinator.core.phrases import count_of, some, span
from fleetledger.coordinator.reports.rollouts.report import GateRow, RolloutDevice, Waits
from fleetledger.coordinator.reports.rollouts.story import RolloutStory
from fleetledger.coordinator.topics.rollouts.gates import GATES, GateFinding, gate_of
from fleetledger.coordinator.topics.rollouts.membership import Membership
from fleetledger.coordinator.topics.rollouts.plan import GatePlan, GroupSize
from fleetledger.coordinator.topics.rollouts.state import OPEN

_SECOND_NS = 1_000_000_000


def size_of(size: GroupSize) -> str:
    """Return how large a group was planned: `1 device`, `5 %`, `all`."""
    if isinstance(size, int):
        return count_of(size)
    return "all" if size >= 1 else f"{100 * size:g} %"


def headline(story: RolloutStory, who: Membership, waits: Waits | None, ran: int) -> str:
    """Return how a rollout stands, in one sentence; `ran` devices have run the version."""
    plan, name = story.planned, f"Rollout {story.planned.rollout}"
    match story.stage:
        case "planned" | "approved" if waits == "approval":
            return f"{name} of model {plan.version} waits for somebody to approve group 1."
        case "planned" | "approved":
            return f"{name} of model {plan.version} is planned, and waits to be started."
        case "paused":
            return f"{name} is paused: {why(story)}."
        case "rolled_back":
            to = story.own[story.last.index].body["to"]
            back = f"went back to model {to}" if to else "was taken back"
            return f"{name} {back}: {why(story)}."
        case "finished":
            return f"{name} has finished: model {plan.version} is what every device is to run."
        case "superseded":
            by = story.own[story.last.index].body["by"]
            return f"{name} ended where it was: rollout {by} took its place."
        case "aborted":
            return f"{name} was aborted: {_bare(story.reason)}."
        case "soaking":
            return _soaking(story, waits)
        case _:
            return _running(story, who, waits, ran)


def why(story: RolloutStory) -> str:
    """Return why a rollout stopped, without a point at its end."""
    verdict = story.verdict
    deciding = None if verdict is None else deciding_finding(verdict.body.gates)
    if (
        verdict is None
        or deciding is None
        or verdict.body.outcome == "pass"
        or story.last.index < verdict.index
        or story.by_operator
    ):
        return _bare(story.reason) or "somebody wanted it"
    return describe_finding(deciding, story.planned.version, story.planned.former)


def deciding_finding(gates: tuple[GateFinding, ...]) -> GateFinding | None:
    """Return what decides: the first gate that fails, else what a person should look at."""
    against = [gate for gate in gates if gate.outcome != "pass"]
    ordered = sorted(against, key=lambda gate: (gate.outcome != "fail", gate.too_little))
    return ordered[0] if ordered else None


def describe_finding(finding: GateFinding, version: int, former: int | None) -> str:
    """Return what a gate found against a version, in a few words."""
    model, gate = f"model {version}", gate_of(finding.gate)
    if finding.too_little:
        return f"too little is known of {model} to go on ({gate.title})"
    unsure = finding.outcome == "inconclusive"
    if unsure and finding.alone is not None:
        return f"what {gate.title} says of {model} rests on {finding.alone} alone"
    words = gate.unsure if unsure and gate.unsure else gate.words
    before = "the one before" if former is None else f"model {former}"
    return words.format(model=model, before=before, of_class=finding.of_class or "a class")


def short_of(finding: GateFinding) -> str:
    """Return the figures of a finding alone, such as `orange: 33 : 3, log e 12.6`."""
    return (gate_of(finding.gate).short(finding) if finding.counts else "") or finding.text


def odds(log_e: float) -> str:
    """Return how seldom evidence so strong turns up where nothing is wrong: `one of 1,600`."""
    times = math.exp(min(log_e, 34.0))
    digits = max(0, math.floor(math.log10(max(times, 1.0))) - 1)
    return f"one of {math.floor(times / 10**digits) * 10**digits:,}"


def lead(
    story: RolloutStory, lines: tuple[RolloutDevice, ...], new: tuple[str, ...]
) -> tuple[str, ...]:
    """Return what the version brings, who runs it, and what going back costs, as sentences."""
    planned = story.planned
    found = []
    if new and planned.former is not None:
        found.append(f"Model {planned.version} adds {some(new)} to model {planned.former}.")
    ran = sum(line.ran for line in lines)
    runs = sum(line.ran and line.stage in {"switched", "settled"} for line in lines)
    never = sum(not line.ran and line.stage != "excluded" for line in lines)
    if ran:
        now = f"{count_of(runs)} run{'s' if runs == 1 else ''} it"
        ever = "" if ran == runs else f", {ran:,} have run it at some time"
        found.append(f"{now}{ever}, {never:,} never saw it.")
    if runs and planned.former is not None and story.stage in OPEN:
        found.append("Going back takes each device a switch of slots, and no download.")
    return tuple(found)


def rules(gates: GatePlan, former: int | None, classes: int) -> tuple[GateRow, ...]:
    """Return each gate that is on, with its limit in words; health, which always is, the last."""
    before = "the active model" if former is None else f"model {former}"
    first, *others = (gate for gate in GATES if gate.is_on(gates))
    return tuple(
        GateRow(gate=one.name, title=one.title, rule=one.rule(gates, before, classes))
        for one in (*others, first)
    )


def _soaking(story: RolloutStory, waits: Waits | None) -> str:
    name, verdict = f"Rollout {story.planned.rollout}", story.verdict
    assert verdict is not None, "what soaks has passed"
    group, last = verdict.body.group, len(story.planned.plan.groups)
    shadow = verdict.body.mode == "shadow"
    what = f"Group {group} of {name.lower()} has passed" + (" in the shadow" if shadow else "")
    if waits in {"approval", "signature"}:
        word = "approval" if waits == "approval" else "signature"
        return f"{what}, and group {group + 1} waits for its {word}."
    if shadow:
        return f"{what}, and runs it next."
    soak = span(round(story.planned.plan.soak_seconds * _SECOND_NS))
    following = "it has finished" if group == last else f"group {group + 1} follows"
    return f"{what}; {following} after a soak of {soak}, unless something speaks against it."


def _running(story: RolloutStory, who: Membership, waits: Waits | None, ran: int) -> str:
    name, newest = f"Rollout {story.planned.rollout}", story.newest
    version = story.planned.version
    if newest is None:
        word = {"approval": "approved", "signature": "signed"}.get(waits or "", "")
        return f"{name} of model {version} has begun" + (
            f", and group 1 waits to be {word}." if word else "."
        )
    devices = count_of(who.up_to(newest.number))
    if waits == "signature":
        return f"Group {newest.number} of {name.lower()} waits for its signature."
    if newest.phases[-1].mode == "shadow":
        return f"{name} measures model {version} in the shadow on {devices}."
    return (
        f"{name} has come to group {newest.number} of {len(story.planned.plan.groups)}: model "
        f"{version} has run on {count_of(ran)} of {who.up_to(newest.number):,}."
    )


def _bare(text: str) -> str:
    return text.strip().rstrip(".")
