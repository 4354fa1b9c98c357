"""Accuracy of the fleet after each stage, on old classes and on new ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.answers import RightCount
from fleetledger.coordinator.reports.old_and_new_classes import names_of_newest
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.runtime.strict import Strict


class AccuracySpread(Strict):
    """How many held-out samples a model was right for on all devices, and how devices differ."""

    right: RightCount
    devices: int
    low: float
    """Share from 0 to 1 that a tenth of the devices does not reach."""
    high: float
    """Share from 0 to 1 that a tenth of the devices exceeds."""


class StageAccuracy(Strict):
    """A stage with the newest model of it that was measured."""

    stage: int
    class_names: tuple[str, ...]
    index: int
    """The entry that opened it."""
    version: int | None = None
    """None where no model of it was measured yet."""
    old: AccuracySpread | None = None
    """Classes of stages before."""
    new: AccuracySpread | None = None
    """Classes of this stage."""


def stage_accuracies(ledger: LedgerReader) -> tuple[StageAccuracy, ...]:
    """Return every stage, oldest first; a model counts for the newest stage that it has learned."""
    stages = sorted(state_of(ledger).stages.by_number.items())
    measured = _measured_versions(ledger)
    found = []
    for number, stage in stages:
        version = measured.get(number)
        old, new = (None, None) if version is None else _spreads(ledger, version)
        found.append(
            StageAccuracy(
                stage=number,
                class_names=stage.class_names,
                index=stage.opened_index,
                version=version,
                old=old,
                new=new,
            )
        )
    return tuple(found)


def _measured_versions(ledger: LedgerReader) -> dict[int, int]:
    """Return the newest measured version of each stage."""
    state = state_of(ledger)
    stages, models = state.stages.by_number.items(), state.models
    return {
        max((n for n, stage in stages if stage.opened_index < one.solved_index), default=0): (
            one.version
        )
        for one in models.all_learned
        if models.measured_all(one.version).devices
    }


def _spreads(
    ledger: LedgerReader, version: int
) -> tuple[AccuracySpread | None, AccuracySpread | None]:
    newest = names_of_newest(ledger, version)
    counts: defaultdict[tuple[bool, str], list[int]] = defaultdict(lambda: [0, 0])
    for entry in ledger.find(DeviceEvaluated, last=True, where={"evaluation.version": version}):
        for name, result in entry.body["evaluation"]["results"].items():
            count = counts[name in newest, str(entry.device)]
            count[0] += result["correct"]
            count[1] += result["total"]
    old, new = (
        _spread([count for (is_new, _), count in counts.items() if is_new is wanted])
        for wanted in (False, True)
    )
    return old, new


def _spread(counts: Sequence[Sequence[int]]) -> AccuracySpread | None:
    told = [(correct, total) for correct, total in counts if total]
    if not told:
        return None
    shares = sorted(correct / total for correct, total in told)
    right = RightCount(correct=sum(c for c, _ in told), total=sum(t for _, t in told))
    return AccuracySpread(
        right=right, devices=len(told), low=_quantile(shares, 0.1), high=_quantile(shares, 0.9)
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
