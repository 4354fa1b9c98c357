"""What goes to and from a proxy: a party beside the coordinator that may know what it must not.

Devices send it gradients of perturbed prototypes (LGA); it inverts them, scores the fleet's models
by the images that come out, and tells the coordinator which old model is the best. Neither the
gradients nor the images reach the coordinator.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.contributions import MAX_PAYLOAD_BYTES, PartKey
from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.message import Items, Message
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.rounds import MAX_HEAD_CLASSES, RoundNumber
from fleetledger.schemas.values import ClassName, Digest, PerClass

MAX_SCORED = 100_000
Score = Annotated[float, Field(ge=0, le=1)]


class PrototypeGradients(Message):
    """Gradients of a device's prototypes: attached up to 64 KiB, offered in blocks above.

    Neither a label nor a number of images is said; the part is the round in which they were made.
    """

    kind: ClassVar[str] = "gradients"
    key: PartKey
    method: str = Field(min_length=1, max_length=40)
    lineage: Digest
    payload: Digest
    payload_bytes: int = Field(ge=1, le=MAX_PAYLOAD_BYTES)
    offer: Offer | None = None
    """Given when the payload is not attached."""

    @model_validator(mode="after")
    def _offer_matches_payload(self) -> Self:
        if self.offer is None:
            if self.payload_bytes > INLINE_LIMIT:
                raise ValueError(f"offer: payloads above {INLINE_LIMIT} bytes must be offered")
        elif (self.offer.digest, self.offer.size) != (self.payload, self.payload_bytes):
            raise ValueError("offer: digest and size must be those of the payload")
        return self


class ScoringOrder(Message):
    """The coordinator asks the proxy to score the fleet's newest model; retained.

    A higher action replaces a lower one.
    """

    kind: ClassVar[str] = "scoring-order"
    action: int = Field(ge=0, lt=2**63)
    """Index of the ledger entry that made the weights."""
    stage: int = Field(ge=1, lt=2**31)
    round: RoundNumber
    round_of_stage: int = Field(ge=1, lt=2**31)
    rounds_of_stage: int = Field(ge=1, lt=2**31)
    method: str = Field(min_length=1, max_length=40)
    settings: dict[str, Any]
    """The method's own assignment."""
    lineage: Digest
    weights: Offer
    class_names: Items[ClassName] = Field(min_length=1, max_length=MAX_HEAD_CLASSES)
    """Rows of the head in those weights."""
    class_stages: Items[Annotated[int, Field(ge=1, lt=2**31)]] = Field(
        default=(), max_length=MAX_HEAD_CLASSES
    )
    """The stage that brought each of these classes, by which gradients are filed."""
    aliases: PerClass[ClassName] = Field(default_factory=dict, max_length=MAX_HEAD_CLASSES)
    """Other names of these classes, under which the proxy may know them."""
    preprocessing: Preprocessing
    """How pictures become the network's inputs."""
    seed: int = Field(ge=0, lt=2**63)
    """Of whatever is drawn for the score."""


class ScoredModel(Strict):
    """A model of the fleet and its score."""

    round: RoundNumber
    weights: Digest
    score: Score


class Scored(Message):
    """The proxy's answer: what it scored, and the old models that devices get from here on."""

    kind: ClassVar[str] = "scored"
    action: int = Field(ge=0, lt=2**63)
    """Of the order that this answers."""
    newest: ScoredModel | None = None
    """The order's model; None where there is nothing yet to score by."""
    scored: Items[ScoredModel] = Field(default=(), max_length=MAX_SCORED)
    """All that were compared for the present task, the newest among them."""
    previous: Digest | None = None
    """Weights of the best model of the task before: the old model of devices that are in the
    present task."""
    current: Digest | None = None
    """Weights of the best model of the present task: the old model of devices that enter the
    next one."""
    gradients: int = Field(default=0, ge=0, lt=2**31)
    """Sets of gradients in the pool of the present task."""
    images: int = Field(default=0, ge=0, lt=2**31)
    """Images that they gave."""
    shifted: bool = False
    """Whether new gradients began a task with this round."""
    seconds: float = Field(ge=0)
    remarks: Items[Annotated[str, Field(max_length=500)]] = Field(default=(), max_length=20)
