"""Parts that were set aside, judged again by the sum of that time.

Figures come from floating point, so another platform's may differ in their last digits. A verdict
that rests on such a difference is within tolerance; a proof by a vector is one of integers, and the
same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isclose

from fleetledger.coordinator.core.work import Judging
from fleetledger.coordinator.models.inspection import harmful_parts
from fleetledger.coordinator.models.outliers import SummedParts, judged, vector_of
from fleetledger.coordinator.reports.reports import ReplayState
from fleetledger.coordinator.topics.contributions.entries import (
    MAX_TOLD,
    ContributionsSetAside,
    JudgedPart,
)
from fleetledger.learning.numerics.witness import form_along
from fleetledger.schemas.values import DeviceId

TOLERANCE = 1e-3
"""Largest distance of a figure, relative to it, from that of another platform."""


def judged_again(summed: SummedParts, recorded: ContributionsSetAside) -> tuple[ReplayState, str]:
    """Return how figures that are computed anew stand to those that were recorded."""
    verdict = judged(summed, Judging(recorded.since, recorded.bounds))
    sides = ((recorded.set_aside, verdict.set_aside), (recorded.again, verdict.again))
    apart = 0.0
    for told, made in sides:
        found = {part.device: part for part in made}
        for part in told:
            other = found.get(part.device)
            if other is None or not set(part.indices) <= set(other.indices):
                if not _at_a_bound(part, recorded):
                    return "differs", f"parts of {part.device} are not judged so: {part.figures}"
                apart = max(apart, TOLERANCE)
                continue
            apart = max(apart, _distance(part, other))
        named = {part.device for part in told}
        for part in made:
            if part.device not in named:
                if not _at_a_bound(part, recorded):
                    return "differs", f"{part.device} gave what is judged, too: {part.figures}"
                apart = max(apart, TOLERANCE)
    devices = _named((*recorded.set_aside, *recorded.again))
    if apart > TOLERANCE:
        return "differs", f"figures of {devices} are {apart:.2g} of their value apart"
    return ("within tolerance" if apart else "equal"), f"judged alike: {devices}"


def inspected_again(
    summed: SummedParts, recorded: ContributionsSetAside, seed: int
) -> tuple[ReplayState, str]:
    """Return whether an inspection finds the same parts."""
    told = {part.device: part.indices for part in recorded.set_aside}
    made = {part.device: part.indices for part in harmful_parts(summed, seed)}
    if told == made:
        return "equal", f"an inspection finds the same: {_named(recorded.set_aside)}"
    return "differs", f"an inspection finds {', '.join(sorted(made)) or 'nobody'}"


def proven(
    summed: SummedParts, recorded: ContributionsSetAside, blob: bytes
) -> tuple[ReplayState, str]:
    """Return whether a vector proves what was recorded, and nothing besides.

    v^T G v < 0 holds for each part that was set aside, and for no other part of the sum, in
    integers.
    """
    vector, counted = vector_of(blob), summed.counted
    told = {index: part.device for part in recorded.set_aside for index in part.indices}
    full = len(recorded.set_aside) == MAX_TOLD
    for index in sorted({*told, *(i for i in counted if counted.is_summed(i, summed.lineage))}):
        triangle = summed.side.gram_triangle(summed.assignment, summed.part(index))
        proves = triangle is not None and form_along(triangle, vector) < 0
        if index in told and not proves:
            return "differs", f"the vector proves nothing of entry {index} of {told[index]}"
        if proves and index not in told and not full:
            device = counted[index].device
            return "differs", f"the vector proves the same of entry {index} of {device}"
    return "equal", f"no samples have what {_named(recorded.set_aside)} gave"


def _at_a_bound(part: JudgedPart, recorded: ContributionsSetAside) -> bool:
    bounds = recorded.bounds
    pairs = (
        (part.residual, bounds.residual),
        (part.pull, bounds.pull),
        (part.move, bounds.move),
    )
    return any(isclose(figure, bound, rel_tol=TOLERANCE) for figure, bound in pairs)


def _distance(one: JudgedPart, other: JudgedPart) -> float:
    pairs = (
        (one.residual, other.residual),
        (one.pull, other.pull),
        (one.move, other.move),
    )
    return max(abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in pairs)


def _named(parts: Iterable[JudgedPart]) -> str:
    devices: set[DeviceId] = {part.device for part in parts}
    return ", ".join(sorted(devices))
