"""Accuracy of a model on a device, class by class, beside the version before it there."""

from __future__ import annotations

from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.answers import RightCount
from fleetledger.coordinator.reports.old_and_new_classes import names_of_newest
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, measured_by
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.times import IsoTime


class ClassThere(Strict):
    """A class on a device."""

    name: str
    is_new: bool
    """It came in the newest stage that the model knows."""
    right: RightCount
    before: RightCount | None
    """The same under the version before, where that was measured there."""


class AccuracyByClass(Strict):
    """What was measured on a device last."""

    version: int
    index: int
    """The entry with it."""
    time: IsoTime
    provider: str
    measured_by: str
    """The execution provider, and how the machine was where that is known."""
    of_pixels: bool
    """Counts are of pixels: intersection and union."""
    before: int | None
    """The version that it is compared with."""
    classes: tuple[ClassThere, ...]

    def total(self, *, new: bool) -> RightCount | None:
        """Return the sum over old classes, or over new ones; None where there are none."""
        counts = [one.right for one in self.classes if one.is_new is new]
        if not counts:
            return None
        return RightCount(
            correct=sum(c.correct for c in counts), total=sum(c.total for c in counts)
        )


def accuracy_by_class(ledger: LedgerReader, device: str) -> AccuracyByClass | None:
    """Return the newest version that was measured there, class by class; None where none was."""
    found = ledger.find(DeviceEvaluated, device=device)
    last = {one.body["evaluation"]["version"]: one for one in found}
    if not last:
        return None
    version, *earlier = sorted(last, reverse=True)
    body = DeviceEvaluated.model_validate(last[version].body)
    evaluation, before = body.evaluation, dict[str, RightCount]()
    if earlier:
        before = _counts(DeviceEvaluated.model_validate(last[earlier[0]].body))
    newest = names_of_newest(ledger, version)
    return AccuracyByClass(
        version=version,
        index=last[version].index,
        time=last[version].time_ns,
        provider=evaluation.provider,
        measured_by=measured_by(body),
        of_pixels=body.answers == "pixels",
        before=earlier[0] if earlier else None,
        classes=tuple(
            ClassThere(name=name, is_new=name in newest, right=count, before=before.get(name))
            for name, count in sorted(_counts(body).items(), key=lambda item: item[0] in newest)
        ),
    )


def _counts(body: DeviceEvaluated) -> dict[str, RightCount]:
    return {
        name: RightCount(correct=result.correct, total=result.total)
        for name, result in body.evaluation.results.items()
        if result.total
    }
