"""What was measured with the model, and what is new by it."""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.device_agent.core.changes.durable import Durable
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import Line, because
from fleetledger.device_agent.core.records import (
    OutboxKey,
    OutboxMessage,
)
from fleetledger.learning.numerics.detection import Detector
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.values import Digest


@dataclass(frozen=True)
class ImagesMeasured(Durable):
    """New images were measured: what the detector makes of it, and those that are not counted."""

    detector: Detector
    images: tuple[Digest, ...]

    def __call__(self, draft: Draft) -> None:
        draft.detector = self.detector
        draft.measured |= set(self.images)


@dataclass(frozen=True)
class TransitionWritten(Durable):
    """Something new is to be reported; its class names are not reported again."""

    transition: Transition

    def __call__(self, draft: Draft) -> None:
        body = self.transition
        draft.transitions = body.number + 1
        draft.reported |= set(body.classes)
        key = PartKey(stage=body.stage, part=body.number)
        draft.post(OutboxKey("transition", key), OutboxMessage(0, body))

    def says(self) -> Line:
        """Tell what is new."""
        body, names = self.transition, ", ".join(sorted(self.transition.classes))
        text = f"sees something new in stage {body.stage}, by {body.why}{because(names)}"
        fields = {"stage": body.stage, "why": body.why, "classes": names}
        return Line("transition.noticed", text, fields)
