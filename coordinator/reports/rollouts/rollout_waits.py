"""Waits of a rollout: what it waits for, until when, and what follows if all stays well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetledger.coordinator.core.phrases import count_of, some, span
from fleetledger.coordinator.reports.rollouts.report import Waits
from fleetledger.coordinator.reports.rollouts.story import GroupStory, RolloutStory
from fleetledger.coordinator.reports.waits import Wait
from fleetledger.coordinator.topics.rollouts.membership import Membership
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.runtime.times import clock_time

_SECOND_NS = 1_000_000_000
_NAMED = 4


@dataclass(frozen=True)
class OpenGroup:
    """Devices of the group that is open that have yet to do something."""

    settling_ns: tuple[int, ...] = ()
    """When each switched that runs the candidate and has not settled."""
    unheard: tuple[str, ...] = ()
    """Those that have not answered, and are waited for."""
    failed: int = 0
    """Devices on which the candidate failed."""


_ASKS = {"operator": "somebody has approved it", "release-key": "a release key has signed it"}
"""What a group that follows waits for, by who lets it go."""
_PERSON = {
    "approval": "It waits until somebody approves group {group}.",
    "signature": "It waits until a release key has signed group {group}.",
    "start": "It waits until somebody starts it.",
}


def rollout_wait(
    story: RolloutStory, who: Membership, waits: Waits | None, group: OpenGroup, now_ns: int
) -> Wait | None:
    """Return what a rollout waits for; None where it has ended."""
    newest = story.newest
    match story.stage:
        case "paused":
            return Wait(sentence="It stands still until somebody decides: back, resume or abort.")
        case "soaking":
            return _soaking(story, who, waits, now_ns)
        case "running" if waits is None and newest is not None:
            return _answering(story, newest, who, group, now_ns)
        case "running" if waits is None:
            return _beginning(story, now_ns)
        case "planned" | "approved" | "running" if waits is not None:
            number = newest.number if newest and waits == "signature" else 1
            return Wait(sentence=_PERSON[waits].format(group=number))
        case _:
            return None


def preview_waits(
    plan: RolloutPlan, devices: Sequence[int], now_ns: int, *, unsigned: bool = False
) -> str:
    """Return when each group of a plan would open at the earliest, were it started now.

    `devices` are those of each group, without the groups before it. `unsigned` where a release key
    that is not here has to sign each group, whoever approves it.
    """
    settle_ns, soak_ns = _settle_ns(plan), _soak_ns(plan)
    groups = [n for n, count in enumerate(devices, 1) if count or n == len(devices)]
    opens = [now_ns + at * (settle_ns + soak_ns) for at in range(len(groups) + 1)]
    asks = ["somebody approves it"] if plan.approve == "operator" else []
    asks += ["a release key has signed it"] if unsigned or plan.approve == "release-key" else []
    if asks:
        begins = f"Once {' and '.join(asks)}, group"
    else:
        begins = f"Started at {clock_time(now_ns, now_ns)}, group"
    first = clock_time(now_ns + settle_ns, now_ns)
    told = f"{begins} {groups[0]} settles until {first}"
    told += f", then soaks {span(soak_ns)}" if soak_ns else ""
    following = [
        f"group {number} opens at {clock_time(opens[place], now_ns)}"
        for place, number in enumerate(groups)
        if place
    ]
    ends = f"it has finished at {clock_time(opens[-1], now_ns)}"
    without = ", without the time that devices take" + (
        " and people take to let groups go" if asks else ""
    )
    return f"{told}; {', '.join((*following, ends))} if all stays well{without}."


def _beginning(story: RolloutStory, now_ns: int) -> Wait:
    begins = story.rollout.begins_ns
    if begins is not None and begins > now_ns:
        return Wait(sentence=f"It begins at {clock_time(begins, now_ns)}.", until=begins)
    return Wait(sentence="It waits until a device of group 1 is here.")


def _soaking(story: RolloutStory, who: Membership, waits: Waits | None, now_ns: int) -> Wait:
    verdict, plan = story.verdict, story.planned.plan
    assert verdict is not None, "what soaks has passed"
    body = verdict.body
    if body.mode == "shadow":
        return Wait(sentence=f"Group {body.group} runs it next.")
    ends = verdict.time_ns + _soak_ns(plan)
    until = f"It soaks until {clock_time(ends, now_ns)}"
    following = _following(who, body.group, len(plan.groups))
    if following is None:
        return Wait(sentence=f"{until}, and has finished then if all stays well.", until=ends)
    asks = _ASKS.get(plan.approve or "")
    if asks is not None and (waits == "approval" or plan.approve == "release-key"):
        asks = f"group {following} opens once {asks}"
        if now_ns >= ends:
            return Wait(sentence=f"It has soaked: {asks}.")
        return Wait(sentence=f"{until}; {asks}, and then at the earliest.", until=ends)
    if now_ns >= ends:
        return Wait(sentence=f"It has soaked: group {following} opens once a device of it is here.")
    return Wait(sentence=f"{until}; group {following} opens then if all stays well.", until=ends)


def _answering(
    story: RolloutStory, newest: GroupStory, who: Membership, group: OpenGroup, now_ns: int
) -> Wait:
    plan, shadow = story.planned.plan, newest.phases[-1].mode == "shadow"
    latest = story.last.time_ns + round(plan.deadline_hours * 3600 * _SECOND_NS)
    if group.unheard:
        names, count = group.unheard, count_of(len(group.unheard))
        named = f" ({some(names)})" if len(names) <= _NAMED else ""
        of = f"{count}{named} of {len(who.of(newest.number)):,}"
        has = "has" if len(names) == 1 else "have"
        what = "measured it in the shadow" if shadow else "switched to it"
        then = "runs it then" if shadow else f"settles {span(_settle_ns(plan))} after that"
        return Wait(
            sentence=f"Group {newest.number} waits for {of}, which {has} not {what} yet, until "
            f"{clock_time(latest, now_ns)} at the latest, and goes on without a device that is "
            f"away for {span(round(plan.reach_seconds * _SECOND_NS))}; it {then} if all stays "
            f"well.{_hours(plan)}",
            until=latest,
        )
    settled = max(group.settling_ns, default=now_ns) + _settle_ns(plan)
    if shadow or not group.settling_ns:
        if group.failed and plan.retries:
            count = count_of(group.failed)
            return Wait(
                sentence=f"Group {newest.number} waits for {count} on which it failed: each may "
                f"try again, until {clock_time(latest, now_ns)} at the latest.",
                until=latest,
            )
        return Wait(sentence=f"Group {newest.number} has answered, and is judged.")
    if settled < now_ns:
        count = count_of(len(group.settling_ns))
        return Wait(
            sentence=f"Group {newest.number} waits for {count} to say that it has settled, due at "
            f"{clock_time(settled, now_ns)}; until {clock_time(latest, now_ns)} at the latest.",
            until=latest,
        )
    soak_ns, following = _soak_ns(plan), _following(who, newest.number, len(plan.groups))
    soaks = f", then soaks {span(soak_ns)}" if soak_ns else ""
    at = clock_time(settled + soak_ns, now_ns)
    then = f"it has finished at {at}" if following is None else f"group {following} opens at {at}"
    if plan.approve is not None and following is not None:
        then += f", once {_ASKS[plan.approve]},"
    return Wait(
        sentence=f"Group {newest.number} settles until {clock_time(settled, now_ns)}{soaks}; "
        f"{then} if all stays well.",
        until=settled,
    )


def _hours(plan: RolloutPlan) -> str:
    if plan.hours is None:
        return ""
    begins, ends = plan.hours.begins, plan.hours.ends
    return (
        f" Devices switch between {begins // 60:02}:{begins % 60:02} and "
        f"{ends // 60:02}:{ends % 60:02} by their own clocks."
    )


def _following(who: Membership, number: int, groups: int) -> int | None:
    """Return the group that opens after one; None after the last."""
    return next(_further(who, number, groups), None)


def _further(who: Membership, number: int, groups: int) -> Iterator[int]:
    for following in range(number + 1, groups + 1):
        if who.of(following) or following == groups:
            yield following


def _settle_ns(plan: RolloutPlan) -> int:
    return round(plan.settle_seconds * _SECOND_NS)


def _soak_ns(plan: RolloutPlan) -> int:
    return round(plan.soak_seconds * _SECOND_NS)
