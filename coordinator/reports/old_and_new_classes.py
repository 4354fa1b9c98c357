"""Accuracy of a model on devices, on the classes it knew before and on the newest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated


@dataclass(frozen=True)
class CorrectRatios:
    """Shares from 0 to 1 of held-out samples that a model was right for, over all devices.

    Of a model of pixels the mean over classes of intersection over union. None where nothing was
    measured of such classes.
    """

    all: float | None
    old: float | None
    """Of classes that came in a stage before the newest that the model knows."""
    new: float | None
    """Of classes that came in that stage."""


@dataclass(frozen=True)
class ClassCount:
    """What devices measured of a class: right answers and samples, or intersection and union."""

    correct: int
    total: int
    of_pixels: bool


def correct_ratios(ledger: LedgerReader, version: int) -> CorrectRatios:
    """Return how well a version does where it was measured last, by old and new classes."""
    return ratios_of(ledger, [version])[version]


_KNOWN: dict[tuple[object, ...], CorrectRatios] = {}
"""Ratios that were computed, by all that they follow from; those of old versions never change."""
_MOST_KNOWN = 1024


def ratios_of(ledger: LedgerReader, versions: Sequence[int]) -> dict[int, CorrectRatios]:
    """Return the same of each of several versions; what was measured long ago is read once."""
    state = state_of(ledger)
    names = json.dumps([state.classes.aliases, first_stages(ledger)], sort_keys=True)
    measured = {version: state.models.measured_all(version) for version in versions}
    keys = {
        version: (str(ledger.path), names, version, found.devices, found.index)
        for version, found in measured.items()
        if found.devices
    }
    fresh = [version for version, key in keys.items() if key not in _KNOWN]
    if len(_KNOWN) + len(fresh) > _MOST_KNOWN:
        _KNOWN.clear()
    for version in fresh:
        counts, last = class_counts(ledger, version), newest_classes(ledger, version)
        _KNOWN[keys[version]] = CorrectRatios(
            all=_ratio(counts.values()),
            old=_ratio(count for name, count in counts.items() if name not in last),
            new=_ratio(count for name, count in counts.items() if name in last),
        )
    nothing = CorrectRatios(None, None, None)
    return {v: _KNOWN[keys[v]] if v in keys else nothing for v in versions}


def class_counts(ledger: LedgerReader, version: int) -> dict[str, ClassCount]:
    """Return what devices measured of each class last, by its present name."""
    present, found = state_of(ledger).classes.present, dict[str, list[int]]()
    for entry in ledger.find(DeviceEvaluated, last=True, where={"evaluation.version": version}):
        of_pixels = entry.body.get("answers") == "pixels"
        for name, result in entry.body["evaluation"]["results"].items():
            count = found.setdefault(present(name), [0, 0, 0])
            count[0] += result["correct"]
            count[1] += result["total"]
            count[2] |= of_pixels
    return {
        name: ClassCount(correct, total, bool(of_pixels))
        for name, (correct, total, of_pixels) in sorted(found.items())
    }


def newest_classes(ledger: LedgerReader, version: int) -> frozenset[str]:
    """Return the present names of the classes that came last of those that a model knows."""
    state, first = state_of(ledger), first_stages(ledger)
    model = state.models.by_version.get(version)
    names = () if model is None else model.made.class_names
    known = {state.classes.present(name) for name in names} & first.keys()
    last = max((first[name] for name in known), default=None)
    return frozenset(name for name in known if first[name] == last)


def names_of_newest(ledger: LedgerReader, version: int) -> frozenset[str]:
    """Return the same classes by all names that they ever had."""
    classes, newest = state_of(ledger).classes, newest_classes(ledger, version)
    return newest | {name for name in classes.aliases if classes.present(name) in newest}


def first_stages(ledger: LedgerReader) -> dict[str, int]:
    """Return the stage that first asked for each class, by its present name."""
    state, first = state_of(ledger), dict[str, int]()
    for number, stage in sorted(state.stages.by_number.items()):
        for name in stage.class_names:
            first.setdefault(state.classes.present(name), number)
    return first


def _ratio(found: Iterable[ClassCount]) -> float | None:
    counts = [count for count in found if count.total]
    if not counts:
        return None
    if any(count.of_pixels for count in counts):
        return sum(count.correct / count.total for count in counts) / len(counts)
    return sum(count.correct for count in counts) / sum(count.total for count in counts)
