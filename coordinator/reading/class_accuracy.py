"""How well a model does on a device, class by class, beside the version before it there."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reading.answers import RightCount
from fleetledger.coordinator.reading.old_and_new import names_of_newest
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, measured_by
from fleetledger.schemas.message import Strict
from fleetledger.schemas.times import IsoTime


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


_MEASURED = """
SELECT json_extract(body, '$.version'), max(idx), time_ns, body FROM entry
WHERE kind = 'device.evaluated' AND device = ? GROUP BY 1 ORDER BY 1 DESC LIMIT 2
"""


def accuracy_by_class(ledger: LedgerReader, device: str) -> AccuracyByClass | None:
    """Return the newest version that was measured there, class by class; None where none was."""
    rows = ledger.db.execute(_MEASURED, [device]).fetchall()
    if not rows:
        return None
    (version, index, time_ns, text), *earlier = rows
    body = json.loads(text)
    before = _counts(json.loads(earlier[0][3])) if earlier else {}
    newest = names_of_newest(ledger, version)
    return AccuracyByClass(
        version=version,
        index=index,
        time=time_ns,
        provider=body["provider"],
        measured_by=measured_by(DeviceEvaluated.model_validate(body)),
        of_pixels=body.get("answers") == "pixels",
        before=earlier[0][0] if earlier else None,
        classes=tuple(
            ClassThere(name=name, is_new=name in newest, right=count, before=before.get(name))
            for name, count in sorted(_counts(body).items(), key=lambda item: item[0] in newest)
        ),
    )


def _counts(body: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, RightCount]:
    return {
        name: RightCount(correct=result["correct"], total=result["total"])
        for name, result in body["results"].items()
        if result["total"]
    }
