"""Whole rollouts: one that forgets a class, one that finishes, one that waits to be approved."""

from __future__ import annotations

from collections.abc import Mapping

from fleetledger.coordinator.topics.rollouts.entries import (
    RolloutApproved,
    RolloutFinished,
    RolloutPaused,
    RolloutRolledBack,
    RolloutUnreached,
)
from fleetledger.coordinator.topics.rollouts.plan import GatePlan, RolloutPlan
from fleetledger.schemas.rollouts import Mode
from fleetledger.schemas.values import ClassName, DeviceId
from tests.coordinator.reports.rollouts.tales import Tale, fleet

HOUR = 3600 * 10**9


def forgetting(devices: int = 200, group: int = 3, *, back: bool = False) -> Tale:
    """Groups pass until one in which the candidate forgets oranges: it pauses, or goes back."""
    tale = Tale(fleet(devices))
    tale.begin()
    tale.planned(RolloutPlan(on_fail="back" if back else "pause", gates=GatePlan(alike=1)))
    reported = set[DeviceId]()
    for number in range(1, group + 1):
        lost = {ClassName("orange"): 0.07} if number == group else {}
        phases: tuple[Mode, ...] = ("shadow", "run") if number == 1 else ("run",)
        for phase in phases:
            members = tale.opened(number, phase)
            for place, device in enumerate(members):
                if device in reported or (number == group and place == len(members) - 1):
                    continue
                _report(tale, device, number, phase, lost, refuses=number == 3 and place == 7)
                if phase == "run":
                    reported.add(device)
            if number == group and phase == "run":
                tale.say(RolloutUnreached(rollout=7, group=number, devices=(members[-1],)))
                assert tale.measured(number, phase) == "fail"
                _ends(tale, members, back=back)
                return tale
            if phase == "run":
                _settle(tale, members)
            assert tale.measured(number, phase) == "pass"
            tale.now_ns += HOUR
    return tale


def _report(
    tale: Tale,
    device: DeviceId,
    group: int,
    phase: Mode,
    lost: Mapping[ClassName, float],
    *,
    refuses: bool,
) -> None:
    tale.now_ns += HOUR // 12
    if refuses:
        tale.runs(device, "failed", "self-test over 300 s")
        return
    if phase == "run":
        tale.runs(device)
    if device not in tale.evidence.comparisons:
        tale.compared(device, group, phase, lost)


def _settle(tale: Tale, members: list[DeviceId]) -> None:
    for device in members:
        if device not in tale.evidence.settled | tale.evidence.failed:
            tale.runs(device, "settled")


def _ends(tale: Tale, members: list[DeviceId], *, back: bool) -> None:
    if not back:
        tale.say(RolloutPaused(rollout=7, reason="a class is lost"))
        return
    tale.say(RolloutRolledBack(rollout=7, to=11, reason="a class is lost"))
    for device in members[:-1]:
        tale.runs_again(device)


def finished(devices: int = 30) -> Tale:
    """Everything passes."""
    tale = Tale(fleet(devices))
    tale.begin()
    tale.planned(RolloutPlan(groups=(1, 1.0), shadow="off"))
    done = set[DeviceId]()
    for group in (1, 2):
        for device in tale.opened(group, "run"):
            if device not in done:
                tale.runs(device)
                tale.compared(device, group, "run")
                done.add(device)
        _settle(tale, tale.members(group))
        assert tale.measured(group, "run") == "pass"
    tale.say(RolloutFinished(rollout=7))
    return tale


def waiting(devices: int = 6, *, approved: int = 0) -> Tale:
    """A person has to let each group go."""
    tale = Tale(fleet(devices))
    tale.begin()
    tale.planned(RolloutPlan(approve="operator"))
    for group in range(1, approved + 1):
        tale.say(RolloutApproved(rollout=7, group=group), actor="operator:bo")
    return tale
