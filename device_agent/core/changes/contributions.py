"""What was counted and given, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleetledger.device_agent.core.changes.durable import Durable
from fleetledger.device_agent.core.draft import Draft, Refusal
from fleetledger.device_agent.core.log_words import (
    Line,
    because,
    contribution_line,
    of_part,
    warning,
)
from fleetledger.device_agent.core.records import (
    CountedImage,
    GivenPart,
    OutboxKey,
    OutboxMessage,
    PartState,
)
from fleetledger.schemas.contributions import Contribution, Nothing, PartKey, Withdrawal
from fleetledger.schemas.values import ClassName, Digest


@dataclass(frozen=True)
class PartWritten(Durable):
    """A part was computed: part, message and counted images in one transaction.

    Replaces the images of an earlier revision of the same part.
    """

    contribution: Contribution
    images: tuple[tuple[Digest, ClassName], ...]
    attached: bytes | None
    """The payload, unless it is offered."""

    def __call__(self, draft: Draft) -> None:
        body = self.contribution
        _release_images(draft, body.key)
        counted = draft.counted[body.lineage]
        counted.update((digest, CountedImage(body.key, name)) for digest, name in self.images)
        draft.measured -= {digest for digest, _ in self.images}
        draft.parts[body.key] = GivenPart(body.revision, "waiting", body.lineage, body.payload)
        draft.post(
            OutboxKey("contribution", body.key), OutboxMessage(body.revision, body), self.attached
        )

    def says(self) -> Line:
        """Tell what is given."""
        return contribution_line("contribution.made", "made", self.contribution)


@dataclass(frozen=True)
class PartWithdrawn(Durable):
    """A part is to be taken out of the sum; its images may be counted again."""

    key: PartKey
    revision: int
    reason: str

    def __call__(self, draft: Draft) -> None:
        _release_images(draft, self.key)
        known = draft.parts.get(self.key)
        lineage = known.lineage if known is not None else None
        draft.parts[self.key] = GivenPart(self.revision, "withdrawn", lineage, None)
        draft.take_out(OutboxKey("contribution", self.key))
        body = Withdrawal(key=self.key, revision=self.revision, reason=self.reason)
        draft.post(OutboxKey("withdrawal", self.key), OutboxMessage(self.revision, body))

    def says(self) -> Line:
        """Tell what is taken back."""
        text = f"takes part {self.key.part} of stage {self.key.stage} back{because(self.reason)}"
        return Line("part.withdrawn", text, of_part(self.key, reason=self.reason))


@dataclass(frozen=True)
class NothingWritten(Durable):
    """The device has no data for a stage, or its policy lets nothing leave."""

    stage: int
    reason: str = ""
    """What the policy says; empty where there is no data."""

    def __call__(self, draft: Draft) -> None:
        draft.nothing.add(self.stage)
        message = OutboxKey("nothing", PartKey(stage=self.stage, part=0))
        draft.post(message, OutboxMessage(0, Nothing(stage=self.stage, reason=self.reason)))

    def says(self) -> Line:
        """Tell that there is nothing, and why."""
        text = f"nothing for stage {self.stage}{because(self.reason)}"
        return Line("stage.nothing", text, {"stage": self.stage, "reason": self.reason})


@dataclass(frozen=True)
class AcceptanceNoted(Durable):
    """The receipt arrived: the message and its payload can go."""

    message: OutboxKey

    def __call__(self, draft: Draft) -> None:
        draft.take_out(self.message)
        _mark_part(draft, self.message, "accepted")

    def says(self) -> Line:
        """Tell that it arrived."""
        text = f"{self.message.words} was received"
        return Line("contribution.received", text, self.message.fields)


@dataclass(frozen=True)
class RefusalNoted(Durable):
    """Refused for good: the message goes to the dead letters, with the reason."""

    message: OutboxKey
    reason: str

    def __call__(self, draft: Draft) -> None:
        message = draft.outbox[self.message]
        draft.refuse(Refusal(self.message, message.revision, message.body, self.reason))
        draft.take_out(self.message)
        _mark_part(draft, self.message, "refused")

    def says(self) -> Line:
        """Tell that it will never count, and why."""
        text = f"{self.message.words} is refused{because(self.reason)}"
        fields = {**self.message.fields, "reason": self.reason}
        return warning("contribution.refused", text, **fields)


@dataclass(frozen=True)
class PartRetracted(Durable):
    """The operator took an accepted part out of the sum: its images stay counted, and unsent."""

    key: PartKey
    reason: str

    def __call__(self, draft: Draft) -> None:
        message = OutboxKey("contribution", self.key)
        draft.refuse(Refusal(message, draft.parts[self.key].revision, None, self.reason))
        _mark_part(draft, message, "refused")

    def says(self) -> Line:
        """Tell that it counts no more, and why."""
        key = self.key
        text = f"part {key.part} of stage {key.stage} was taken out{because(self.reason)}"
        return warning("part.retracted", text, **of_part(key, reason=self.reason))


@dataclass(frozen=True)
class PartsGivenAgain(Durable):
    """The owner wants the images of refused parts counted again: they go into new parts."""

    keys: tuple[PartKey, ...]

    def __call__(self, draft: Draft) -> None:
        for key in self.keys:
            _release_images(draft, key)
            draft.parts[key] = replace(draft.parts[key], state="withdrawn", payload=None)


@dataclass(frozen=True)
class ImagesUnusable(Durable):
    """Images that do not decode; not tried again until their bytes change."""

    images: tuple[tuple[Digest, str], ...]

    def __call__(self, draft: Draft) -> None:
        draft.unusable.update(self.images)


@dataclass(frozen=True)
class ImagesUnanswered(Durable):
    """Images of which a frozen model makes no finite features; not tried again with it.

    What was noted of other frozen models is forgotten.
    """

    frozen: Digest
    images: tuple[tuple[Digest, str], ...]

    def __call__(self, draft: Draft) -> None:
        for other in list(draft.unanswered):
            if other != self.frozen:
                draft.unanswered[other].clear()
        draft.unanswered[self.frozen].update(self.images)


def _release_images(draft: Draft, key: PartKey) -> None:
    part = draft.parts.get(key)
    if part is None or part.lineage is None:
        return
    counted = draft.counted[part.lineage]
    for digest in [digest for digest, item in counted.items() if item.key == key]:
        del counted[digest]


def _mark_part(draft: Draft, message: OutboxKey, mark: PartState) -> None:
    # An answer to a round is no part.
    if message.about == "contribution" and message.key in draft.parts:
        draft.parts[message.key] = replace(draft.parts[message.key], state=mark)
