"""What a person can do about a rollout, each with why it cannot be done now."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.actions.registry import ACTIONS
from fleetledger.coordinator.reports.rollouts.report import RolloutReport, RolloutSummary
from fleetledger.coordinator.topics.rollouts.state import OPEN
from fleetledger.schemas.message import Strict


class RolloutButton(Strict):
    """A button that leads to an action's form."""

    action: str
    """Its name."""
    text: str
    fields: dict[str, str]
    first: bool = False
    """It is what one does most likely."""
    off: str = ""
    """Why it cannot be done now; empty where it can."""


def buttons(report: RolloutReport) -> tuple[RolloutButton, ...]:
    """Return the buttons of a rollout, the most likely first; none where it has ended."""
    one = report.rollout
    if one.stage not in OPEN:
        return ()
    found = [
        RolloutButton(action=action, text=text, fields={"rollout": str(one.number), **more})
        for action, text, more in _wanted(one)
    ]
    if not found:
        return ()
    first = 0 if one.stage == "paused" or one.waits_for in {"start", "approval"} else None
    return tuple(
        item.model_copy(update={"first": place == first, "off": _off(one, item)})
        for place, item in enumerate(found)
        if item.action in ACTIONS
    )


def _wanted(one: RolloutSummary) -> list[tuple[str, str, dict[str, str]]]:
    back = (
        "rollout-back",
        f"Go back to model {one.former}…" if one.former else "Take it back…",
        dict[str, str](),
    )
    abort = ("rollout-abort", "Abort, keep where it runs…", dict[str, str]())
    pause = ("rollout-pause", "Pause…", dict[str, str]())
    if one.waits_for == "start":
        return [("rollout-start", "Start…", {}), abort]
    if one.waits_for == "approval":
        group = str((one.group or 0) + 1)
        approve = ("rollout-approve", f"Approve group {group}…", {"group": group})
        return [approve, pause, back, abort]
    if one.stage == "paused":
        resume = f"Resume group {one.group} all the same…" if one.group else "Resume…"
        return [back, ("rollout-resume", resume, {}), abort, pause]
    return [pause, back, abort]


def _off(one: RolloutSummary, item: RolloutButton) -> str:
    if item.action == "rollout-pause" and one.stage == "paused":
        return "Pause is off because it is paused already."
    return ""
