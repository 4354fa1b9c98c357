"""Inspects what counts in a ledger: which device harms the others' model, from their sums alone.

What is judged is a unit, which is a device with all of its parts, or any other group of entries
whose sums are known only together.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fleetledger.coordinator.core.phrases import count_of, natural, some
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import BlobPrunedError, CommandError
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.outliers import LineageParts
from fleetledger.coordinator.reports.inspection import (
    InspectedClass,
    InspectedDevice,
    InspectionReport,
    sentence_of,
)
from fleetledger.coordinator.topics.contributions.entries import (
    MAX_MOVED,
    MAX_REASON,
    MAX_TOLD,
    JudgedPart,
)
from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.inspection import Inspection, UnitVerdict, inspect_units
from fleetledger.learning.numerics.leave_out import UnitMoments
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.methods.statistics.sides import ExactAggregate
from fleetledger.schemas.values import ClassName, DeviceId

log = logging.getLogger("coordinator.models.inspection")

Progress = Callable[[int, int], None]
"""Is told how many units of how many were read."""


@dataclass(frozen=True)
class Unit:
    """What is judged as one: entries of parts in the sum."""

    name: str
    indices: tuple[int, ...]


def units_of(parts: LineageParts, stage: int | None = None) -> tuple[Unit, ...]:
    """Return the devices with their parts in the sum, those of one stage alone where it is given.

    In the order of their names.
    """
    found: dict[str, list[int]] = defaultdict(list)
    for index, item in parts.counted.items():
        if parts.counted.is_summed(index, parts.lineage) and stage in (None, item.key.stage):
            found[str(item.device)].append(index)
    return tuple(Unit(name, tuple(sorted(found[name]))) for name in sorted(found, key=natural))


@dataclass(frozen=True)
class InspectedUnits:
    """Units with their verdicts, and the classes of the verdicts' columns."""

    units: tuple[Unit, ...]
    images: tuple[int, ...]
    names: tuple[ClassName, ...]
    found: Inspection

    @property
    def harmful(self) -> tuple[Unit, ...]:
        """The units that harm the others."""
        return tuple(self.units[place] for place in self.found.flagged)

    def devices(self) -> tuple[InspectedDevice, ...]:
        """Return what is shown of the units, the most harmful first."""
        order = sorted(range(len(self.units)), key=self._rank)
        return tuple(self._device(place) for place in order)

    def _rank(self, place: int) -> tuple[bool, bool, float]:
        verdict = self.found.verdicts[place]
        return not verdict.flagged, not verdict.unlike, -verdict.harm

    def _device(self, place: int) -> InspectedDevice:
        verdict, camps = self.found.verdicts[place], self.found.camps or ((), ())
        device = InspectedDevice(
            name=self.units[place].name,
            images=self.images[place],
            verdict=_word(verdict),
            harmed=verdict.harmed,
            judges=verdict.judges,
            harm=_rounded(verdict.harm),
            distance=_rounded(verdict.distance),
            classes=tuple(
                InspectedClass(
                    name=self.names[one.column],
                    harmed=one.harmed,
                    judges=one.judges,
                    harm=_rounded(one.harm),
                    flagged=one.flagged,
                    distance=_rounded(one.unlike),
                )
                for one in verdict.classes
            ),
            unjudged=tuple(self.names[column] for column in verdict.unjudged),
            camp=1 if place in camps[0] else 2 if place in camps[1] else None,
            sentence="",
        )
        return device.model_copy(update={"sentence": sentence_of(device)})

    def warnings(self) -> tuple[str, ...]:
        """Return why the verdicts are not certain."""
        if self.found.camps is None:
            return ()
        one, other = ([self.units[place].name for place in camp] for camp in self.found.camps)
        return (
            f"The fleet has two camps that harm each other: {count_of(len(one), 'device')} "
            f"({some(one)}) and {count_of(len(other), 'device')} ({some(other)}). Which of them is "
            "honest cannot be told from sums; look at images of a few devices of each.",
        )


def inspected(
    parts: LineageParts,
    units: Sequence[Unit],
    seed: int,
    progress: Progress = lambda _done, _of: None,
) -> InspectedUnits:
    """Return the verdicts on units; raise `CommandError` where the sums hold no Gram matrix.

    Raises `LearningError` where half of them have no stable model.
    """
    names = _names(parts, units)
    moments, images = [], []
    for done, unit in enumerate(units):
        progress(done, len(units))
        moments.append(_moments(parts, unit, names))
        images.append(moments[-1].samples)
    progress(len(units), len(units))
    ridge = parts.side.judged_ridge(parts.assignment) if units else 0.0
    found = inspect_units(moments, ridge, seed=seed)
    return InspectedUnits(tuple(units), tuple(images), names, found)


def harmful_parts(parts: LineageParts, seed: int) -> tuple[JudgedPart, ...]:
    """Return what is to be set aside of what counts; nothing where evidence is ambiguous.

    Nor is anything that the operator let in, or where sums cannot be judged.
    """
    units = units_of(parts)
    try:
        found = inspected(parts, units, seed)
    except (CommandError, LearningError) as error:
        log.warning("what counts is not inspected: %s", error)
        return ()
    for warning in found.warnings():
        log.warning("nothing is set aside by an inspection: %s", warning)
        return ()
    told = {one.name: one.sentence for one in found.devices()}
    kept = ((u, [i for i in u.indices if i not in parts.counted.let_in]) for u in found.harmful)
    return tuple(
        JudgedPart(
            device=DeviceId(unit.name),
            indices=tuple(indices[:MAX_MOVED]),
            residual=-1,
            pull=-1,
            move=-1,
            harm=shortened(told[unit.name]),
        )
        for unit, indices in kept
        if indices
    )[:MAX_TOLD]


def shortened(text: str) -> str:
    """Return a sentence as an entry may hold it."""
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 4]} ..."


def seed_of(ledger: LedgerReader, size: int) -> int:
    """Return the seed of splits, which follows from the first entries of a ledger."""
    return int(ledger.root_at(size)[:8], 16)


def inspect_ledger(
    blobs: Blobs, stage: int | None = None, progress: Progress = lambda _done, _of: None
) -> InspectionReport:
    """Inspect what counts in a ledger now, or of it what was given for one stage.

    Raises `CommandError` where nothing of it can be inspected.
    """
    began = time.perf_counter()
    parts = _counted(blobs)
    units, unread = _readable(blobs, parts, units_of(parts, stage))
    if stage is not None and not units:
        raise CommandError(f"--stage: nothing that counts was given for stage {stage}")
    size = blobs.ledger.size
    try:
        found = inspected(parts, units, seed_of(blobs.ledger, size), progress)
    except LearningError as error:
        raise CommandError(f"inspect: {error}") from error
    return InspectionReport(
        ledger_size=size,
        stage=stage,
        lineage=str(parts.lineage),
        devices=found.devices(),
        warnings=found.warnings(),
        unread=unread,
        passes=found.found.passes,
        seconds=round(time.perf_counter() - began, 3),
    )


def _counted(blobs: Blobs) -> LineageParts:
    """Return what counts of the lineage whose heads are solved."""
    state = state_of(blobs.ledger)
    lineage = state.lineages.backbone or state.lineages.beneath
    if lineage is None:
        raise CommandError(
            "inspect: no frozen model leads, and only sums over its features can be inspected; "
            "docs/inspect.md says what there is for rounds"
        )
    side = statistics_coordinator(lineage.method)
    assignment = side.read_assignment(lineage.settings)
    counted, names = state.contributions.counted, state.classes.resolution()

    def part(index: int) -> ExactAggregate:
        given = counted[index]
        statistics = side.read(assignment, blobs.get(given.payload))
        made = side.aggregate_type.of(assignment, statistics, given.key.stage)
        return made.renamed(names)

    return LineageParts(side, assignment, lineage.digest, names, counted, part)


def _readable(
    blobs: Blobs, parts: LineageParts, units: Iterable[Unit]
) -> tuple[tuple[Unit, ...], tuple[str, ...]]:
    """Return the units without parts whose payload was deleted, and a sentence on each of these."""
    kept: list[Unit] = []
    unread: list[str] = []
    for unit in units:
        there = []
        if any(n < 0 for i in unit.indices for n in parts.counted[i].samples.values()):
            unread.append(f"{unit.name} is not judged: it takes out what members gave before.")
            continue
        for index in unit.indices:
            try:
                blobs.check(parts.counted[index].payload)
                there.append(index)
            except BlobPrunedError:
                unread.append(
                    f"Entry {index} of {unit.name} is not judged: retention deleted its payload."
                )
        if there:
            kept.append(replace(unit, indices=tuple(there)))
    return tuple(kept), tuple(unread)


def _moments(parts: LineageParts, unit: Unit, names: Sequence[ClassName]) -> UnitMoments:
    moments = parts.side.judged_moments(parts.assignment, parts.sum_of(unit.indices), names)
    if moments is None:
        raise CommandError(
            "inspect: these sums hold no Gram matrix, so nobody can be judged by them; methods "
            "stsa (forms compact and exact) and fed3r send one"
        )
    given = dict.fromkeys(names, 0)
    for index in unit.indices:
        for name, samples in parts.counted[index].samples.items():
            given[parts.resolution.get(name, name)] += samples
    counts = np.array(list(given.values()), np.int64)
    return UnitMoments.of(moments.gram, moments.sums, counts)


def _names(parts: LineageParts, units: Sequence[Unit]) -> tuple[ClassName, ...]:
    told = (parts.counted[index].samples for unit in units for index in unit.indices)
    return tuple(sorted({parts.resolution.get(name, name) for one in told for name in one}))


def _word(verdict: UnitVerdict) -> Literal["harms", "unlike", "no harm", "not judged"]:
    if verdict.flagged:
        return "harms"
    if verdict.unlike:
        return "unlike"
    return "no harm" if verdict.judged else "not judged"


def _rounded(figure: float) -> float:
    return float(f"{figure:.4g}")
