"""How well each version of the model did on devices: whether the fleet got better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleetledger.coordinator.core.folding import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reading.old_and_new import ratios_of
from fleetledger.schemas.message import Strict


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


_MEASURED = """
SELECT version, solved_index, source, json_array_length(class_names), count(*),
    sum(correct), sum(total), avg(mean_iou)
FROM measured JOIN model USING (version) GROUP BY version ORDER BY version
"""


def version_accuracies(ledger: LedgerReader, most: int) -> AccuracyByVersion:
    """Return at most `most` of the versions that were measured, spread over all of them."""
    stages = [
        (stage.opened_index, number) for number, stage in state_of(ledger).stages.by_number.items()
    ]
    rows = ledger.db.execute(_MEASURED).fetchall()
    shown = _spread(rows, most)
    ratios = ratios_of(ledger, [row[0] for row in shown])
    return AccuracyByVersion(
        measured=len(rows),
        of_pixels=any(row[7] is not None for row in rows),
        versions=tuple(
            VersionAccuracy(
                version=version,
                stage=0
                if source is not None
                else max((stage for opened, stage in stages if opened < solved), default=0),
                classes=classes,
                devices=devices,
                all=iou if iou is not None else correct / total if total else None,
                old=ratios[version].old,
                new=ratios[version].new,
            )
            for version, solved, source, classes, devices, correct, total, iou in shown
        ),
    )


def _spread(rows: Sequence[tuple[Any, ...]], most: int) -> Sequence[tuple[Any, ...]]:
    if len(rows) <= most:
        return rows
    *earlier, newest = rows
    step = (len(earlier) - 1) / (most - 2)
    return [*(earlier[round(place * step)] for place in range(most - 1)), newest]
