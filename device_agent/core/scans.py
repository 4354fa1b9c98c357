"""Rules of the data folder: when it is looked at, and what a scan means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable, Put
from fleetledger.device_agent.core.decision import NOTHING_TO_DO, AgentDecision, ask, change
from fleetledger.device_agent.core.log_words import Line
from fleetledger.device_agent.core.notices import problem, recovered, report_problems
from fleetledger.device_agent.core.records import RESTLESS_SCANS, CountedImage, Sighting
from fleetledger.device_agent.core.requests import Scan
from fleetledger.device_agent.core.state import AgentRecords, AgentState
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.class_names import fault_of, skeleton
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import ClassName, Digest

_RESTS = 20
"""A scan is followed by so many times as long without one."""
_LONGEST_REST = 300.0
"""Seconds; a new image of the largest folder waits no longer."""


def assigned(state: AgentState, event: inputs.Assigned, now: float) -> AgentDecision:
    """Take a higher action only, and look at the folder anew for it."""
    records = state.records
    if records.assignment is not None and event.assignment.action <= records.assignment.action:
        return NOTHING_TO_DO
    return change(
        assignment_taken(event),
        replace(state.scanning, due=now),
        replace(state.work, settled=False),
        replace(state.files, littered=True),
    )


def assignment_taken(event: inputs.Assigned) -> Durable:
    """Replace the assignment that was known, and log what the device is asked."""
    asked, instruction = event.assignment, event.assignment.round
    fields = {"stage": asked.stage, "index": asked.action, "method": asked.method}
    text = f"asked to contribute to stage {asked.stage}"
    if instruction is not None:
        text = f"asked to take part in round {instruction.number} of stage {asked.stage}"
        fields["round"] = instruction.number
    line = Line("stage.asked", text, fields)
    return Put(line, assignment=asked, ledger_boot=event.coordinator)


def scan_due(state: AgentState, now: float) -> AgentDecision:
    """Scan every `scan_seconds`, one scan at a time."""
    scanning = state.scanning
    if scanning.running or now < scanning.due:
        return NOTHING_TO_DO
    assignment = state.records.assignment
    begun_for = assignment.action if assignment is not None else None
    return change(replace(scanning, running=True, begun_for=begun_for)) + ask(Scan())


def scanned(state: AgentState, event: inputs.Scanned, now: float) -> AgentDecision:
    """Note what is on the disk, which classes wait, and what the owner should mend."""
    counted = counted_images(state.records)
    images, conflicts = sight(event.images, counted)
    assignment = state.records.assignment
    before = state.scanning
    # A scan that began before the newest assignment says nothing about it: look again at once.
    current = assignment is None or before.begun_for == assignment.action
    usual = state.rules.settle_seconds if event.unsettled else state.rules.scan_seconds
    # A folder of many files is looked at less often, so that looking takes a small share.
    wait = max(usual, min(_RESTS * event.seconds, _LONGEST_REST))
    scanning = replace(
        before,
        images=images,
        waiting=waiting_classes(state.records, images),
        running=False,
        due=now + wait if current else now,
        done_for=before.begun_for,
        restless=before.restless % RESTLESS_SCANS + 1 if event.unsettled else 0,
        trouble="",
    )
    faults = strange_names(assignment, images, scanning.waiting)
    scanning = replace(scanning, problems=(*event.problems, *conflicts, *faults))
    known = {item.text for item in scanning.problems}
    over = [item.text for item in before.problems if item.text not in known]
    told = recovered(state.told, [*over, before.trouble])
    told = report_problems(told, scanning.problems, state.rules)
    decision = change(scanning, told)
    if (images, scanning.done_for, scanning.restless) != (
        before.images,
        before.done_for,
        before.restless,
    ):
        decision += change(
            replace(state.work, settled=False), replace(state.detecting, settled=False)
        )
    return decision


def scan_failed(state: AgentState, event: inputs.ScanFailed, now: float) -> AgentDecision:
    """Decide nothing about a folder that cannot be read, and look again."""
    scanning = replace(
        state.scanning,
        running=False,
        due=now + state.rules.scan_seconds,
        done_for=None,
        trouble=event.reason,
    )
    told = report_problems(state.told, [problem("data folder", event.reason)], state.rules)
    return change(scanning, told)


def sight(
    images: Iterable[inputs.Image], counted: Mapping[Digest, CountedImage]
) -> tuple[dict[Digest, Sighting], list[Problem]]:
    """Say under which class each image lies.

    An image in two class folders stays with the class under which it is counted, else with the
    first in the order of the paths, and is a problem.
    """
    sightings: dict[Digest, Sighting] = {}
    problems = []
    for image in images:
        first = sightings.get(image.digest)
        if first is None or first.class_name == image.class_name:
            sightings.setdefault(image.digest, _sighting(image))
            continue
        known = counted.get(image.digest)
        if known is not None and known.class_name == image.class_name:
            sightings[image.digest] = _sighting(image)
        problems.append(_two_classes(first, image, sightings[image.digest]))
    return sightings, problems


def _sighting(image: inputs.Image) -> Sighting:
    return Sighting(image.path, image.class_name, image.others)


def _two_classes(first: Sighting, second: inputs.Image, kept: Sighting) -> Problem:
    text = (
        f"{first.path} and {second.path} hold the same bytes under two classes, which count as "
        f"{str(kept.class_name)!r}: delete the wrong one"
    )
    return problem("sample", text)


def waiting_classes(
    records: AgentRecords, images: Mapping[Digest, Sighting]
) -> Mapping[ClassName, int]:
    """Count the images of classes that the assignment does not know; none without assignment.

    Names that hide something are not among them: they are told to the owner alone.
    """
    if records.assignment is None:
        return {}
    counts = _unknown(records.assignment, images)
    return {name: count for name, count in counts.items() if not fault_of(name)}


def strange_names(
    assignment: Assignment | None,
    images: Mapping[Digest, Sighting],
    waiting: Mapping[ClassName, int],
) -> list[Problem]:
    """Say which new names of classes cannot be ones, and which look like the fleet's."""
    if assignment is None:
        return []
    unknown = sorted(_unknown(assignment, images))
    looks = {skeleton(name): name for name in assignment.class_names} if unknown else {}
    found = []
    for name in unknown:
        alike, what = looks.get(skeleton(name)), f"{str(name)!a}: this name of a class"
        if name not in waiting:
            text = f"{what} {fault_of(name)}; rename its folder, or its line in classes.toml"
            found.append(problem("class folder", text))
        elif alike is not None:
            text = f"{what} looks like the fleet's {str(alike)!r}; if that is meant, rename it so"
            found.append(problem("class folder", text))
    return found


def _unknown(assignment: Assignment, images: Mapping[Digest, Sighting]) -> Counter[ClassName]:
    known = set(assignment.class_names)
    return Counter(name for s in images.values() for name in s.shown if name not in known)


def counted_images(records: AgentRecords) -> Mapping[Digest, CountedImage]:
    """Return the images counted for the lineage that is assigned."""
    if records.assignment is None:
        return {}
    return records.counted.get(records.assignment.lineage, {})
