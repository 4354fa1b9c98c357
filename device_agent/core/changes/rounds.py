"""What was trained, seen and remembered in rounds."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from fleetledger.device_agent.core.changes.durable import Durable
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import Line, because, contribution_line
from fleetledger.device_agent.core.records import (
    NoveltyCheck,
    OutboxKey,
    OutboxMessage,
)
from fleetledger.schemas.contributions import Contribution, Nothing, PartKey
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.values import Digest


@dataclass(frozen=True)
class AnswerWritten(Durable):
    """A round was answered: message and memory in one transaction."""

    contribution: Contribution
    attached: bytes | None
    """The payload, unless it is offered."""
    memory: Digest | None
    """The file with what the method remembers from here on."""
    exemplars: int
    """How many samples of older classes that is."""

    def __call__(self, draft: Draft) -> None:
        body = self.contribution
        draft.answered.add(body.key.part)
        draft.memory, draft.exemplars = self.memory, self.exemplars
        draft.memory_lineage = body.lineage
        if body.round is not None and body.round.observation is not None:
            draft.look = NoveltyCheck(body.round.number, body.round.observation)
        draft.post(
            OutboxKey("contribution", body.key), OutboxMessage(body.revision, body), self.attached
        )

    def says(self) -> Line:
        """Tell what is given."""
        return contribution_line("contribution.made", "made", self.contribution)


@dataclass(frozen=True)
class GradientsWritten(Durable):
    """A training made gradients for the proxy; written with its answer."""

    body: PrototypeGradients
    attached: bytes | None
    """The payload, unless it is offered."""

    def __call__(self, draft: Draft) -> None:
        draft.post(
            OutboxKey("gradients", self.body.key), OutboxMessage(0, self.body), self.attached
        )


@dataclass(frozen=True)
class GradientsLost(Durable):
    """The file with gradients is gone before the proxy fetched it; there are none to send."""

    key: PartKey

    def __call__(self, draft: Draft) -> None:
        draft.take_out(OutboxKey("gradients", self.key))


@dataclass(frozen=True)
class MemoryForgotten(Durable):
    """The owner has deleted what the method remembers, and gradients that wait for the proxy."""

    def __call__(self, draft: Draft) -> None:
        draft.memory, draft.exemplars = None, 0
        for key in [key for key in draft.outbox if key.about == "gradients"]:
            draft.take_out(key)


@dataclass(frozen=True)
class RoundDeclined(Durable):
    """The device has nothing for a round, or could not train in it."""

    stage: int
    number: int
    reason: str = ""
    """Why it could not; empty where it has no data."""

    def __call__(self, draft: Draft) -> None:
        draft.answered.add(self.number)
        message = OutboxKey("nothing", PartKey(stage=self.stage, part=self.number))
        draft.post(
            message,
            OutboxMessage(0, Nothing(stage=self.stage, round=self.number, reason=self.reason)),
        )

    def says(self) -> Line:
        """Tell that there is nothing for the round, and why."""
        text = f"nothing for round {self.number}{because(self.reason)}"
        fields = {"stage": self.stage, "round": self.number, "reason": self.reason}
        level = logging.WARNING if self.reason else logging.INFO
        return Line("round.nothing", text, fields, level)


@dataclass(frozen=True)
class ObservationWritten(Durable):
    """The device looked at its images, as it was asked: answer and memory in one transaction."""

    stage: int
    number: int
    observation: Observation
    lineage: Digest
    memory: Digest | None
    """The file with what the method remembers from here on."""

    def __call__(self, draft: Draft) -> None:
        draft.answered.add(self.number)
        draft.memory, draft.memory_lineage = self.memory, self.lineage
        draft.look = NoveltyCheck(self.number, self.observation)
        key = OutboxKey("nothing", PartKey(stage=self.stage, part=self.number))
        body = Nothing(stage=self.stage, round=self.number, observation=self.observation)
        draft.post(key, OutboxMessage(0, body))


@dataclass(frozen=True)
class AnswerLost(Durable):
    """The file with an answer's payload is gone before it was fetched; the round is open again."""

    key: PartKey

    def __call__(self, draft: Draft) -> None:
        draft.answered.discard(self.key.part)
        draft.take_out(OutboxKey("contribution", self.key))
