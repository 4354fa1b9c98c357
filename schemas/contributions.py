"""What a device gives: contributions, their keys, and withdrawals.

Data is counted once. A contribution has a key (device, stage, part); the device comes from the
envelope. A second one with the same key and a higher revision replaces the first. A repeat of a
revision that is held gets the stored receipt again.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.cohorts import CohortAnswer
from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.message import Message, is_absent
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.rounds import Observation, RoundAnswer, RoundNumber
from fleetledger.schemas.values import Digest, PerClass

MAX_PAYLOAD_BYTES = 1 << 30
"""No contribution may be larger than 1 GiB; a method's own limit is usually far below."""
MAX_CLASSES = 10_000

PayloadKind = Literal[
    "statistics", "features", "adapter", "weights", "gradients", "logits", "images", "masked"
]
Samples = Annotated[int, Field(ge=1, le=10**9)]


class PartKey(Strict):
    """Names one contribution of a device: the stage it was made in and its number."""

    stage: int = Field(ge=1, lt=2**31)
    part: int = Field(ge=0, lt=2**31)

    def __hash__(self) -> int:
        """Do without pydantic's way, which takes three times as long, a dozen times a receipt."""
        return hash((self.stage, self.part))


class HeldPart(Strict):
    """A part that the coordinator holds: which revision, and the payload's digest."""

    key: PartKey
    revision: int = Field(ge=0, lt=2**31)
    payload: Digest


NOTHING_HELD = Digest("0" * 64)
"""`held_digest` of no parts."""


class Held(Protocol):
    """What of a part `held_digest` is made of."""

    @property
    def key(self) -> PartKey:
        """Name of the part."""

    @property
    def revision(self) -> int:
        """Which of its revisions is held."""

    @property
    def payload(self) -> Digest:
        """Digest of its payload."""


def held_digest(
    parts: Iterable[Held], gone: Iterable[Held] = (), *, of: Digest = NOTHING_HELD
) -> Digest:
    """Return the digest `of` a list of held parts after `parts` came and `gone` went.

    It is the sum of the SHA-256 of each part modulo 2^256: no order, and no cost for parts that
    stay. Sums can be made to collide, which concerns nobody but the device whose parts they are.
    """
    total = int(of, 16) + sum(map(_number, parts)) - sum(map(_number, gone))
    return Digest.known(f"{total % 2**256:064x}")


def _number(part: Held) -> int:
    line = f"{part.key.stage} {part.key.part} {part.revision} {part.payload}"
    return int.from_bytes(sha256(line.encode("utf-8")).digest(), "big")


class Part(Strict):
    """What a device gives under one key: which payload, of which samples, made by which method."""

    key: PartKey
    revision: int = Field(ge=0, lt=2**31)
    payload_kind: PayloadKind
    method: str = Field(min_length=1, max_length=40)
    lineage: Digest
    """Digest of the frozen model that made the features."""
    payload: Digest
    payload_bytes: int = Field(ge=1, le=MAX_PAYLOAD_BYTES)
    samples: PerClass[Samples] = Field(max_length=MAX_CLASSES)
    """Number of images per class name; none where masks hide them."""
    round: RoundAnswer | None = None
    """Given when this answers a round; the part is the round's number then."""
    cohort: CohortAnswer | None = Field(default=None, exclude_if=is_absent)
    """Given when the payload is words behind masks."""

    @model_validator(mode="after")
    def _part_is_the_round(self) -> Self:
        if self.round is not None and self.round.number != self.key.part:
            raise ValueError(
                f"key.part: {self.key.part}; an answer to round {self.round.number} has its number"
            )
        return self

    @model_validator(mode="after")
    def _masks_hide_samples(self) -> Self:
        if (self.cohort is None) != bool(self.samples):
            raise ValueError("samples: none behind masks, and at least one class without")
        if (self.cohort is None) != (self.payload_kind != "masked"):
            raise ValueError("payload_kind: 'masked' in a cohort, and nowhere else")
        return self


class Contribution(Part, Message):
    """A part for the fleet, its payload attached up to 64 KiB, offered in blocks above."""

    kind: ClassVar[str] = "contribution"
    offer: Offer | None = None
    """Given when the payload is not attached."""

    @property
    def part(self) -> Part:
        """The part, without how its payload travels."""
        return Part.of_known(**{name: getattr(self, name) for name in Part.model_fields})

    @model_validator(mode="after")
    def _offer_matches_payload(self) -> Self:
        if self.offer is None:
            if self.payload_bytes > INLINE_LIMIT:
                raise ValueError(f"offer: payloads above {INLINE_LIMIT} bytes must be offered")
        elif (self.offer.digest, self.offer.size) != (self.payload, self.payload_bytes):
            raise ValueError("offer: digest and size must be those of the payload")
        return self


class Withdrawal(Message):
    """Take a part out again: its images moved to another part, or the agent was reinstalled."""

    kind: ClassVar[str] = "withdrawal"
    key: PartKey
    revision: int = Field(ge=0, lt=2**31)
    """Higher than the revision that is held."""
    reason: str = Field(max_length=200)


class Nothing(Message):
    """A device has nothing to give for a stage, or for a round, so that nobody need wait for it."""

    kind: ClassVar[str] = "nothing"
    stage: int = Field(ge=1, lt=2**31)
    round: RoundNumber | None = None
    reason: str = Field(default="", max_length=500)
    """Why the device could not train in the round; empty where it has no data."""
    observation: Observation | None = None
    """What a device saw that was asked only to look, or that has nothing to train on."""
