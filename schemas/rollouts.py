"""What coordinator and devices tell each other in a rollout: shares, hours, comparisons."""

from __future__ import annotations

import hashlib
import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.contributions import MAX_CLASSES, PartKey
from fleetledger.schemas.message import Items, Message, is_absent
from fleetledger.schemas.values import ClassName, DeviceId, Digest, PerClass

Mode = Literal["run", "shadow"]
"""Whether a device runs the model that is desired, or only compares it with what it runs."""

WHOLE = 1 << 48
"""The bound of a share that holds every device."""
ENTROPY_BIN_NATS = 0.1
ENTROPY_BINS = 100
"""Bins of `EntropyCounts.bins`; the last one has everything above, too."""
LATENCY_FIRST_SECONDS = 20e-6
LATENCY_RATIO = 1.08
LATENCY_BINS = 220
"""Bins of a latency histogram: bin k holds `first * ratio**k` up to the next; the first bin has
everything below, the last everything above."""
NATS = 1 << 16
"""Units of a summed entropy in one nat."""
_MOST_NATS = math.ceil(NATS * math.log(MAX_CLASSES))
"""Units of entropy that one image can have."""

RolloutNumber = Annotated[int, Field(ge=1, lt=2**31)]
GroupNumber = Annotated[int, Field(ge=1, le=100)]
MAX_IMAGES = 1_000_000
"""Images of one kind on which a device compares two models."""
_MOST_RUNS = 2 * MAX_IMAGES + 1000
"""Labelled images, others, and golden samples."""
Count = Annotated[int, Field(ge=0, lt=2**48)]
Runs = Annotated[int, Field(ge=0, le=_MOST_RUNS)]
"""Samples that a model was asked about in one comparison."""


def place_of(salt: str, device: DeviceId) -> int:
    """Return the place of a device, from 0 up to `WHOLE`; of the same salt it never changes."""
    digest = hashlib.sha256(f"{salt}\n{device}".encode()).digest()
    return int.from_bytes(digest[:6], "big")


class Share(Strict):
    """Devices whose place lies below a bound: each device can tell by itself whether it is one."""

    salt: str = Field(min_length=1, max_length=64, pattern=r"^[0-9a-z-]+$")
    below: int = Field(ge=1, le=WHOLE)

    def has(self, device: DeviceId) -> bool:
        """Whether a device is among them."""
        return place_of(self.salt, device) < self.below

    @property
    def percent(self) -> str:
        """How much of all places it is, in words."""
        return f"{100 * self.below / WHOLE:.3g} %"


class LocalHours(Strict):
    """A part of every day, by the clock on the wall of the device; it may pass midnight."""

    begins: int = Field(ge=0, lt=1440)
    """Minutes after midnight."""
    ends: int = Field(ge=0, lt=1440)
    """The first minute after it."""

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.begins == self.ends:
            raise ValueError("ends: is when it begins; leave the hours out for the whole day")
        return self

    def has(self, minute: int) -> bool:
        """Whether a minute of the day is among them."""
        if self.begins < self.ends:
            return self.begins <= minute < self.ends
        return minute >= self.begins or minute < self.ends


class Pairs(Strict):
    """Images of one class by who had them right, the active model or the candidate."""

    both: Runs = 0
    only_active: Runs = 0
    only_candidate: Runs = 0
    neither: Runs = 0

    @property
    def images(self) -> int:
        """All of them."""
        return self.both + self.only_active + self.only_candidate + self.neither

    @model_validator(mode="after")
    def _has_so_many(self) -> Self:
        if self.images > MAX_IMAGES:
            raise ValueError(f"images: {self.images} of one class; {MAX_IMAGES} are the most")
        return self


class EntropyCounts(Strict):
    """Entropy of a model's probabilities over some images."""

    images: Runs = 0
    nats: Count = 0
    """Their sum, in 2^-16 nats, each image rounded for itself."""
    bins: Items[Runs] = Field(default=(), max_length=ENTROPY_BINS)
    """How many images lie in each tenth of a nat; zeros at the end are left out."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.bins and sum(self.bins) != self.images:
            raise ValueError(f"bins: hold {count_of(sum(self.bins), 'image')} of {self.images}")
        if self.nats > self.images * _MOST_NATS:
            raise ValueError(
                f"nats: {self.nats} over {count_of(self.images, 'image')}; no image has so many"
            )
        return self


class ModelCost(Strict):
    """What a model took on a device."""

    latency: Items[Runs] = Field(default=(), max_length=LATENCY_BINS)
    """Single samples by the seconds they took, see `LATENCY_BINS`; zeros at the end left out."""
    resident_bytes: Count | None = None
    """Of a process that has this model loaded."""

    @model_validator(mode="after")
    def _has_so_many(self) -> Self:
        if sum(self.latency) > _MOST_RUNS:
            raise ValueError(
                f"latency: {count_of(sum(self.latency), 'sample')}; {_MOST_RUNS} are the most"
            )
        return self


class ModelComparison(Message):
    """A candidate beside the active model on the same images. Sent until its receipt arrives.

    Counts only: which image it was, and what it shows, stays on the device.
    """

    kind: ClassVar[str] = "model.comparison"
    number: int = Field(ge=0, lt=2**31)
    """Counts the comparisons of this installation of the device."""
    rollout: RolloutNumber
    group: GroupNumber
    mode: Mode
    """`shadow`: measured before the switch; `run`: after it, against the former model."""
    candidate: Digest
    """Its manifest."""
    candidate_version: int = Field(ge=1, lt=2**31)
    active: Digest
    """Manifest of the model that it is compared with."""
    active_version: int = Field(ge=1, lt=2**31)
    classes: PerClass[Pairs] = Field(default={}, max_length=MAX_CLASSES)
    """Of held-out images of every class that one of the two knows. A class that the candidate does
    not know has nothing that the candidate could be right in, and the other way round."""
    new_classes: Items[ClassName] = Field(default=(), max_length=MAX_CLASSES)
    """Names among `classes` that the active model does not know."""
    entropy_active: EntropyCounts = EntropyCounts()
    entropy_candidate: EntropyCounts = EntropyCounts()
    """Over the same images, labelled or not, but for those of classes that one of the two does not
    know: of these it must be less sure."""
    agreed: Runs = 0
    """Unlabelled images for which both give the same class."""
    unlabelled: Runs = 0
    """Unlabelled images, of which `agreed` is a part. What models learn from counts as unlabelled,
    too; images in folders of classes that one of the two does not know are left out."""
    cost_active: ModelCost = ModelCost()
    cost_candidate: ModelCost = ModelCost()
    throttled: Count | None = None
    """How often the machine slowed itself down meanwhile."""
    celsius: float | None = Field(default=None, ge=-100, le=300)
    """The hottest that a thermal zone was meanwhile."""
    provider: str = Field(default="", max_length=60)
    power_mode: str | None = Field(default=None, max_length=60, exclude_if=is_absent)
    seconds: float = Field(default=0.0, ge=0)

    @property
    def key(self) -> PartKey:
        """What its receipt is about."""
        return PartKey(stage=self.rollout, part=self.number)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.agreed > self.unlabelled:
            raise ValueError(f"agreed: {self.agreed} of {self.unlabelled} is impossible")
        if self.entropy_active.images != self.entropy_candidate.images:
            raise ValueError("entropy_candidate: has other images than entropy_active")
        if self.unlabelled > MAX_IMAGES:
            raise ValueError(
                f"unlabelled: {count_of(self.unlabelled, 'image')}; {MAX_IMAGES} are the most"
            )
        for name in self.new_classes:
            pairs = self.classes.get(name)
            if pairs is None or pairs.both or pairs.only_active:
                raise ValueError(
                    f"new_classes: {name} is not among classes, or the active model has some of it "
                    "right"
                )
        return self
