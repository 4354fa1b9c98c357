"""Judges new parts of a sum by the model of the others, and finds whose Gram matrix is none.

Parts that came since the newest model are judged together, device by device, each against the sum
without them; devices are dealt to a few groups, each with one model of all but the group. When the
samples of a device have doubled, all of it is judged too, so that many small parts do not add up
unseen. Parts that were set aside before the newest model are judged again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt

from fleetledger.coordinator.core.work import Judging
from fleetledger.coordinator.topics.contributions.entries import MAX_MOVED, MAX_TOLD, JudgedPart
from fleetledger.coordinator.topics.contributions.state import CountedPart, CountedParts
from fleetledger.learning.errors import SingularError
from fleetledger.learning.numerics.influence import Influence, Moments, OthersModel
from fleetledger.learning.numerics.witness import form_along, negative_direction
from fleetledger.methods.statistics.sides import (
    AnyStatisticsCoordinator,
    ExactAggregate,
    StatisticsAssignment,
)
from fleetledger.schemas.values import ClassName, DeviceId, Digest

Integers = npt.NDArray[np.int64]

log = logging.getLogger("coordinator.models.outliers")

_GROUPS = 4
_NOTHING = Influence(0.0, 0.0, 0.0)
_NO_BOUND = Influence(inf, inf, inf)


@dataclass(frozen=True)
class Judgement:
    """Parts to set aside, and parts that may count again."""

    set_aside: tuple[JudgedPart, ...] = ()
    again: tuple[JudgedPart, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.set_aside or self.again)


@dataclass(frozen=True)
class LineageParts:
    """What is held of a lineage, and how one part of it is read."""

    side: AnyStatisticsCoordinator
    assignment: StatisticsAssignment
    lineage: Digest
    resolution: Mapping[ClassName, ClassName]
    counted: CountedParts
    part: Callable[[int], ExactAggregate]
    """Aggregate of one part, by its entry, with classes under the names that they have now."""

    def sum_of(self, indices: Iterable[int]) -> ExactAggregate:
        """Return the sum of some parts, at least one."""
        first, *others = indices
        total = self.part(first)
        for index in others:
            total = total + self.part(index)
        return total


@dataclass(frozen=True)
class SummedParts(LineageParts):
    """The same with the sum of what counts."""

    total: ExactAggregate
    """With classes under the names that they have now."""


def judged(summed: SummedParts, judging: Judging) -> Judgement:
    """Return which parts change sides; nothing for methods whose sums hold no Gram matrix."""
    counted, lineage = summed.counted, summed.lineage
    new = _by_device(
        counted,
        (
            i
            for i in counted.since(judging.since)
            if counted.is_summed(i, lineage) and i not in counted.let_in and _adds(counted[i])
        ),
    )
    aside = _by_device(
        counted,
        (
            i
            for i, at in counted.set_aside.items()
            if at < judging.since and counted[i].lineage == lineage and i not in counted.asked
        ),
    )
    bench = _Bench(summed, judging)
    try:
        out = [found for group in _groups(new) for found in bench.beyond(group)]
        again = [found for group in _groups(aside) for found in bench.cleared(group)]
    except SingularError as error:
        # Intake lets no part in that could do this; the solve fails as well, and names whose it is.
        log.warning("new parts cannot be judged: %s", error)
        return Judgement()
    return Judgement(tuple(out[:MAX_TOLD]), tuple(again[:MAX_TOLD]))


def disproved(summed: SummedParts) -> tuple[tuple[JudgedPart, ...], bytes]:
    """Return the parts whose Gram matrix is that of no samples, with the vector that proves it.

    Nothing where the sum has a solution, or no part is below zero along its vector.
    """
    side, assignment = summed.side, summed.assignment
    triangle = side.gram_triangle(assignment, summed.total)
    moments = side.judged_moments(assignment, summed.total, ())
    if triangle is None or moments is None:
        return (), b""
    vector = negative_direction(moments.gram, side.least_ridge(assignment))
    if vector is None:
        return (), b""
    found: dict[DeviceId, list[int]] = defaultdict(list)
    for index in summed.counted:
        if summed.counted.is_summed(index, summed.lineage) and _adds(summed.counted[index]):
            own = side.gram_triangle(assignment, summed.part(index))
            if own is not None and form_along(own, vector) < 0:
                found[summed.counted[index].device].append(index)
    parts = (
        JudgedPart(device=device, indices=tuple(of_one), residual=-1, pull=-1, move=-1)
        for device, of_one in sorted(found.items())
    )
    return tuple(parts)[:MAX_TOLD], vector.astype("<i2").tobytes()


@dataclass(frozen=True)
class _Others:
    """A model of others, and the bounds that hold beside so many of them."""

    model: OthersModel
    most: Influence


@dataclass(frozen=True)
class _Part:
    """What is judged: its sums, and the moments of these; None where they hold none."""

    aggregate: ExactAggregate
    moments: Moments | None


class _Bench:
    """Judges parts beside others, whose models are made as they are needed."""

    def __init__(self, summed: SummedParts, judging: Judging) -> None:
        self._summed, self._judging = summed, judging
        self._inside = summed.counted.sum_of(summed.lineage).samples
        """Samples in the sum by device."""
        self._names = _names(summed)

    def beyond(self, group: Mapping[DeviceId, Sequence[int]]) -> list[JudgedPart]:
        """Return the new parts of a group's devices that move the others too far."""
        together = self._part(i for new in group.values() for i in new)
        others = self._beside(together, group.keys())
        out = []
        for device, new in group.items():
            own = self._part(new) if len(group) > 1 else together
            found, most = self._influence(others, own.moments, new)
            if found.within(most) and self._has_doubled(device, new):
                found, most = self._whole(device)
            if not found.within(most):
                out.append(_said(device, new, found))
        return out

    def cleared(self, group: Mapping[DeviceId, Sequence[int]]) -> list[JudgedPart]:
        """Return the parts of a group, set aside before, that are within the bounds by now."""
        others = self._others(self._total, group.keys())
        again = []
        for device, parts in group.items():
            found, most = self._influence(others, self._part(parts).moments, parts)
            if found.within(most):
                again.append(_said(device, parts, found))
        return again

    def _influence(
        self, others: _Others | None, moments: Moments | None, parts: Sequence[int]
    ) -> tuple[Influence, Influence]:
        """Return the figures of parts, and their bounds; many devices may move others as far."""
        found, most = _influence(others, moments)
        members = max(self._summed.counted[index].members for index in parts)
        return found, replace(most, move=most.move * members)

    @cached_property
    def _total(self) -> Moments | None:
        return self._moments(self._summed.total)

    def _moments(self, aggregate: ExactAggregate) -> Moments | None:
        """Return the moments of an aggregate; None where it holds no Gram matrix."""
        summed = self._summed
        return summed.side.judged_moments(summed.assignment, aggregate, self._names)

    def _part(self, indices: Iterable[int]) -> _Part:
        aggregate = self._summed.sum_of(indices)
        return _Part(aggregate, self._moments(aggregate))

    def _beside(self, part: _Part, without: Iterable[DeviceId]) -> _Others | None:
        """Return the model of all but a part.

        Exact moments are subtracted as they are, which gives those of the subtracted sums.
        """
        total, own = self._total, part.moments
        if total is not None and own is not None and total.exact and own.exact:
            return self._others(total.without(own), without)
        return self._others(self._moments(self._summed.total - part.aggregate), without)

    def _others(self, moments: Moments | None, without: Iterable[DeviceId]) -> _Others | None:
        """Return the model of some moments; None where they are of no samples, or none at all."""
        if moments is None or not moments.samples:
            return None
        bounds = self._judging.bounds
        most = Influence(bounds.residual, bounds.pull, bounds.move)
        few = len(self._inside.keys() - set(without)) < bounds.move_from_devices
        # Of fewer samples than features a model follows each new one, whoever gives it.
        if few or moments.samples < len(moments.gram):
            most = replace(most, move=inf)
        ridge = self._summed.side.judged_ridge(self._summed.assignment)
        return _Others(OthersModel(moments, ridge), most)

    def _has_doubled(self, device: DeviceId, new: Sequence[int]) -> bool:
        """Return whether a device's samples have passed a power of two, and not by these alone."""
        counted = self._summed.counted
        fresh = sum(sum(counted[i].samples.values()) for i in new)
        whole = self._inside[device]
        return whole - fresh > 0 and (whole - fresh).bit_length() < whole.bit_length()

    def _whole(self, device: DeviceId) -> tuple[Influence, Influence]:
        """Return the figures of all that a device gave; its residual has no bound."""
        summed = self._summed
        given = summed.counted.of_device(device, summed.lineage)
        inside = (i for i in given if summed.counted.is_summed(i, summed.lineage))
        parts = _by_device(summed.counted, inside)[device]
        own = self._part(parts)
        found, most = self._influence(self._beside(own, (device,)), own.moments, parts)
        return found, replace(most, residual=inf)


def _influence(others: _Others | None, part: Moments | None) -> tuple[Influence, Influence]:
    """Return the figures of some parts beside others, and the bounds that hold for them."""
    if others is None or part is None or not part.samples:
        return _NOTHING, _NO_BOUND
    return others.model.influence(part, others.most), others.most


def _adds(item: CountedPart) -> bool:
    """Return whether a part takes no samples out, as that of a cohort may."""
    return all(samples > 0 for samples in item.samples.values())


def _names(summed: SummedParts) -> tuple[ClassName, ...]:
    """Return the classes of everything that is held of the lineage, set aside or not."""
    counted, told = summed.counted, set(summed.counted.sum_of(summed.lineage).names)
    for index in (*counted.left_out, *counted.set_aside):
        if counted[index].lineage == summed.lineage:
            told.update(counted[index].samples)
    return tuple(sorted({summed.resolution.get(name, name) for name in told}))


def _by_device(counted: CountedParts, indices: Iterable[int]) -> dict[DeviceId, list[int]]:
    found: dict[DeviceId, list[int]] = defaultdict(list)
    for index in sorted(indices):
        found[counted[index].device].append(index)
    return {device: found[device][:MAX_MOVED] for device in sorted(found)}


def _groups(devices: Mapping[DeviceId, Sequence[int]]) -> list[dict[DeviceId, Sequence[int]]]:
    """Return the devices dealt to a few groups, by their names."""
    dealt: list[dict[DeviceId, Sequence[int]]] = [{} for _ in range(min(_GROUPS, len(devices)))]
    for place, (device, parts) in enumerate(devices.items()):
        dealt[place % _GROUPS][device] = parts
    return dealt


def _said(device: DeviceId, indices: Sequence[int], found: Influence) -> JudgedPart:
    return JudgedPart(
        device=device,
        indices=tuple(indices),
        residual=_rounded(found.residual),
        pull=_rounded(found.pull),
        move=_rounded(found.move),
    )


def _rounded(figure: float) -> float:
    return float(f"{figure:.4g}")


def vector_of(blob: bytes) -> Integers:
    """Return the vector (M,) that the blob of a proof holds."""
    return np.frombuffer(blob, "<i2").astype(np.int64)
