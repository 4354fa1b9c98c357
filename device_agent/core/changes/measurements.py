"""What was measured with the model, and what is new by it."""

from __future__ import annotations

from dataclasses import dataclass

from device_agent.core.changes.durable import Durable
from device_agent.core.draft import Draft
from device_agent.core.records import (
    OutboxKey,
    OutboxMessage,
)
from learning.numerics.detection import Detector
from schemas.contributions import PartKey
from schemas.reports import Evaluation, Transition
from schemas.values import Digest


@dataclass(frozen=True)
class ModelEvaluated(Durable):
    """The active model was evaluated."""

    evaluation: Evaluation

    def __call__(self, draft: Draft) -> None:
        draft.evaluation = self.evaluation


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
