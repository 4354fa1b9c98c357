"""Rounds: what a device is asked to train on, and what it says of its answer.

The coordinator asks a cohort by putting a `RoundOrder` into their assignments. A device answers
with a contribution that carries a `RoundAnswer`, or with a `Nothing` that names the round. Its key
is the stage and, as part, the round's number, so that a repeat is known like any other.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import Items
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import ClassName, PerClass

MAX_HEAD_CLASSES = 10_000

RoundNumber = Annotated[int, Field(ge=1, lt=2**31)]
"""Counts the rounds of a fleet, over all stages and lineages."""
PhaseName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
ExtraName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]

STALENESS_STEPS = 256
"""Steps of weight 1, in which answers that began from older weights are weighed."""

TRAIN = "train"
"""The phase of methods whose rounds have one."""


class Observation(Strict):
    """What the fleet's model made of a device's current images, before any training."""

    entropy: float = Field(ge=0, le=100)
    """Mean over the images, in nats."""
    images: int = Field(ge=1, le=10**9)
    transition: bool
    """Whether the device takes this for the beginning of a new task."""


class RoundTerms(Strict):
    """What one round asks for, the same of every device."""

    number: RoundNumber
    phase: PhaseName = TRAIN
    follows: RoundNumber | None = None
    """The round before it whose counted answers this phase goes on from; None for a first phase."""
    round_of_stage: int = Field(ge=1, lt=2**31)
    """Counts the rounds of the stage, for schedules."""
    rounds_of_stage: int = Field(ge=1, lt=2**31)
    weights: Offer
    """The fleet's model: parameters and buffers by name, as safetensors."""
    weights_class_names: Items[ClassName] = Field(default=(), max_length=MAX_HEAD_CLASSES)
    """Rows of the head in those weights."""
    class_names: Items[ClassName] = Field(min_length=1, max_length=MAX_HEAD_CLASSES)
    """Rows of the head that is trained; new ones begin as the method says, alike everywhere."""
    aliases: PerClass[ClassName] = Field(default_factory=dict, max_length=MAX_HEAD_CLASSES)
    """Other names of these classes, under which a device may hold images."""
    extras: dict[ExtraName, Offer] = Field(default_factory=dict, max_length=16)
    """Further files that the method names, such as an old model."""
    seed: int = Field(ge=0, lt=2**63)
    """Of everything that is drawn in the round, together with the device's name."""
    deadline_seconds: float = Field(gt=0, le=1e9)
    """Time until the round closes, from when it was opened; a later answer is recorded only."""


class RoundOrder(RoundTerms):
    """What one round asks of a device of its cohort."""

    class_stages: Items[Annotated[int, Field(ge=1, lt=2**31)]] = Field(
        default=(), max_length=MAX_HEAD_CLASSES
    )
    """The stage that brought each of `class_names`."""
    observes: bool = False
    """Only look at the images with the fleet's model, and remember; others train."""


class RoundAnswer(Strict):
    """What a device says of its training; never trusted for more than a report."""

    number: RoundNumber
    phase: PhaseName = TRAIN
    samples: int = Field(ge=1, le=10**9)
    """Training samples, the weight of the answer in a weighted mean."""
    steps: int = Field(ge=1, le=10**9)
    loss: float | None = None
    """Mean loss of the last epoch."""
    seconds: float = Field(ge=0)
    """Of computing on the device."""
    stored_samples: int = Field(default=0, ge=0, le=10**9)
    """Exemplars that the device keeps."""
    observation: Observation | None = None
    """Given by methods whose devices look for new tasks by themselves."""
