"""How a rollout stands and why, by the evidence; what a person can do about it."""

from __future__ import annotations

from fleetledger.coordinator.actions.registry import ACTIONS
from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, NotThereError, Sources, number_in_path
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.reports.rollouts import report as rollout_report
from fleetledger.coordinator.reports.rollouts.lookup import one_rollout
from fleetledger.coordinator.reports.rollouts.report import RolloutReport, RolloutSummary
from fleetledger.coordinator.topics.rollouts.state import OPEN
from fleetledger.runtime.strict import Strict


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


SHOWN = 12
"""Devices that are named under a state."""


class StandingLine(Strict):
    """Devices of which the same became."""

    stage: str
    text: str
    devices: int
    named: tuple[rollout_report.RolloutDevice, ...]
    """Those that somebody would look at."""


class GateCell(Strict):
    """What a gate says of a group, with the curve beside it."""

    group: int
    opened: bool
    line: rollout_report.GateLine | None
    curve: rollout_report.EvidenceCurve | None
    others: tuple[rollout_report.EvidenceCurve, ...]


class GateTableRow(Strict):
    """A gate over all groups."""

    rule: rollout_report.GateRow
    cells: tuple[GateCell, ...]


class EvidenceShown(Strict):
    """The plot of what decides: a curve, others beside it, the limit."""

    heading: str
    curve: rollout_report.EvidenceCurve
    others: tuple[rollout_report.EvidenceCurve, ...]
    limit: float
    across: str
    """What the axis counts."""
    decided: str = ""
    """What became of it where it passed the limit."""


class RolloutPage(PageModel):
    """One rollout."""

    report: rollout_report.RolloutReport
    buttons: tuple[RolloutButton, ...]
    shown: EvidenceShown | None
    table: tuple[GateTableRow, ...]
    standing: tuple[StandingLine, ...]
    verify: str
    """The command that decides it again."""


_ALWAYS = {"settled", "switched", "refused", "failed"}
_NAMED = {"refused", "failed", "rolled_back", "unreached", "pinned"}


def read(sources: Sources, asked: Asked) -> RolloutPage:
    """Return a rollout; raise `NotThereError` where there is none."""
    number = number_in_path(asked, "number", "rollout")
    try:
        report = one_rollout(sources.ledger, number, sources.now_ns)
    except CommandError as error:
        text = f"There is no rollout {number}; /rollouts lists those that there are."
        raise NotThereError(text) from error
    return RolloutPage(
        title=report.rollout.sentence,
        report=report,
        buttons=buttons(report),
        shown=_shown(report),
        table=tuple(_row(report, rule) for rule in report.rules),
        standing=tuple(_standing(report)),
        verify=f"fleetledger rollout verify {number}",
    )


def _row(report: rollout_report.RolloutReport, rule: rollout_report.GateRow) -> GateTableRow:
    found = {line.group: line for line in report.gates if line.gate == rule.gate}
    curves = {one.group: one for one in report.evidence}
    cells = []
    for group in report.groups:
        line, evidence = found.get(group.number), curves.get(group.number)
        curve: rollout_report.EvidenceCurve | None = None
        others: tuple[rollout_report.EvidenceCurve, ...] = ()
        if evidence is not None and line is not None and line.limit is not None:
            if rule.gate == "retention":
                curve = evidence.retention
            elif rule.gate == "no_class_lost":
                curve = _of_class(evidence.classes, line.of_class)
                others = tuple(one for one in evidence.classes if one is not curve)
        cells.append(
            GateCell(
                group=group.number,
                opened=group.stage != "ahead",
                line=line,
                curve=curve,
                others=others,
            )
        )
    return GateTableRow(rule=rule, cells=tuple(cells))


def _shown(report: rollout_report.RolloutReport) -> EvidenceShown | None:
    """Return the curve of what decided, or of the class that is nearest to its limit."""
    if not report.evidence:
        return None
    evidence, verdict = report.evidence[-1], report.verdict
    limits = {line.gate: line.limit for line in report.gates if line.limit is not None}
    decided = _decided(report)
    if verdict is not None and verdict.gate == "retention" and evidence.retention is not None:
        return EvidenceShown(
            heading="Evidence that it is worse, log e",
            curve=evidence.retention.model_copy(update={"name": "all"}),
            others=evidence.classes,
            limit=limits.get("retention", 0.0),
            across="devices with old classes, in the order of reports",
            decided=decided if verdict.outcome == "fail" else "",
        )
    limit = limits.get("no_class_lost")
    if limit is None or not evidence.classes:
        return None
    lines = [line for line in report.gates if line.gate == "no_class_lost"]
    curve = _of_class(evidence.classes, lines[-1].of_class if lines else None)
    assert curve is not None
    fails = verdict is not None and verdict.gate == "no_class_lost" and verdict.outcome == "fail"
    return EvidenceShown(
        heading="Evidence that a class is worse, log e",
        curve=curve,
        others=tuple(one for one in evidence.classes if one is not curve),
        limit=limit,
        across="devices with the class, in the order of reports",
        decided=decided if fails else "",
    )


def _decided(report: rollout_report.RolloutReport) -> str:
    words = {"paused": "paused", "rolled_back": "went back"}
    word = words.get(report.rollout.stage, "")
    return f"{word}, #{report.rollout.newest_index:,}" if word else ""


def _of_class(
    curves: tuple[rollout_report.EvidenceCurve, ...], name: str | None
) -> rollout_report.EvidenceCurve | None:
    found = next((one for one in curves if one.name == name), None)
    return found or (curves[0] if curves else None)


def _standing(report: rollout_report.RolloutReport) -> list[StandingLine]:
    lines = []
    for stage, text in rollout_report.DEVICE_STAGES:
        count = report.counts.get(stage, 0)
        if not count and stage not in _ALWAYS:
            continue
        named = [one for one in report.devices if one.stage == stage and stage in _NAMED]
        lines.append(
            StandingLine(stage=stage, text=text, devices=count, named=tuple(named[:SHOWN]))
        )
    return lines
