"""Accuracy of each version of the model on devices."""

from __future__ import annotations

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.old_and_new_classes import ratios_of
from fleetledger.runtime.strict import Strict


class VersionAccuracy(Strict):
    """A version that was measured; shares from 0 to 1, None of classes that it does not have."""

    version: int
    stage: int
    """The newest stage that it has learned; 0 before the first, and of an imported model."""
    classes: int
    devices: int
    """That measured it."""
    all: float | None
    old: float | None
    """Of classes of earlier stages."""
    new: float | None
    """Of classes of its newest stage."""


class AccuracyByVersion(Strict):
    """Measured versions, oldest first; of many the first, the two newest, and some between them."""

    measured: int
    """Versions that were measured."""
    of_pixels: bool
    """Shares are of intersection over union."""
    versions: tuple[VersionAccuracy, ...]

    @property
    def change(self) -> str:
        """Sentence that compares the newest version with the one before it and with the best."""
        known = [(one.version, one.all) for one in self.versions if one.all is not None]
        if not known:
            return "No version has been measured."
        version, newest = known[-1]
        right = "has a mean IoU of" if self.of_pixels else "is right for"
        said = f"Model {version} {right} {100 * newest:.1f} % over all classes"
        if len(known) == 1:
            return f"{said}; no other version was measured."
        before, earlier = known[-2]
        points = 100 * (newest - earlier)
        how = "more" if points > 0 else "fewer"
        same = f"{abs(points):.1f}" == "0.0"
        changed = "the same as" if same else f"{abs(points):.1f} points {how} than"
        best, most = max(known, key=lambda one: (one[1], one[0]))
        of_best = f"model {best} had the most: {100 * most:.1f} %"
        top = "the most so far" if best == version else of_best
        return f"{said}, {changed} model {before}; {top}."


def version_accuracies(ledger: LedgerReader, most: int) -> AccuracyByVersion:
    """Return at most `most` of the versions that were measured, spread over all of them."""
    state = state_of(ledger)
    stages = [(one.opened_index, number) for number, one in state.stages.by_number.items()]
    known = state.models
    measured = {version: known.measured_all(version) for version in known.by_version}
    versions = [version for version, found in measured.items() if found.devices]
    shown = _spread(versions, most)
    ratios = ratios_of(ledger, shown)
    return AccuracyByVersion(
        measured=len(versions),
        of_pixels=any(measured[version].mean_iou is not None for version in versions),
        versions=tuple(
            VersionAccuracy(
                version=version,
                stage=0
                if model.imported is not None
                else max((stage for at, stage in stages if at < model.solved_index), default=0),
                classes=len(model.made.class_names),
                devices=measured[version].devices,
                all=measured[version].accuracy,
                old=ratios[version].old,
                new=ratios[version].new,
            )
            for version in shown
            for model in [known.by_version[version]]
        ),
    )


def _spread(versions: list[int], most: int) -> list[int]:
    if len(versions) <= most:
        return versions
    *earlier, newest = versions
    step = (len(earlier) - 1) / (most - 2)
    return [*(earlier[round(place * step)] for place in range(most - 1)), newest]
