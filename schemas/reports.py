"""What a device tells about itself: accuracy on its own held-out images, new classes, faults."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.contributions import MAX_CLASSES
from fleetledger.schemas.message import Items, Message, is_absent
from fleetledger.schemas.values import BootId, Digest, PerClass
from fleetledger.schemas.variants import VariantName

MAX_WAITING_CLASSES = 1000
"""Class names that one message may carry."""
Images = Annotated[int, Field(ge=0, le=10**9)]


class ClassResult(Strict):
    """Right answers of the model that runs on the device, for one class."""

    correct: int = Field(ge=0)
    total: int = Field(ge=1)

    @model_validator(mode="after")
    def _no_more_right_than_asked(self) -> Self:
        if self.correct > self.total:
            raise ValueError(f"correct: {self.correct} of {self.total} is impossible")
        return self


class Evaluation(Message):
    """Accuracy of one model version on the device's held-out images, in its ONNX Runtime."""

    kind: ClassVar[str] = "evaluation"
    version: int = Field(ge=1)
    manifest: Digest
    results: PerClass[ClassResult] = Field(max_length=MAX_CLASSES)
    provider: str = Field(max_length=60)
    seconds: float = Field(ge=0)
    power_mode: str | None = Field(default=None, max_length=60, exclude_if=is_absent)
    """Of a Jetson, when the time was taken."""
    celsius: float | None = Field(default=None, ge=-100, le=300, exclude_if=is_absent)
    """The hottest that a thermal zone was before or after it."""
    throttled: int | None = Field(default=None, ge=0, lt=2**63, exclude_if=is_absent)
    """How often the machine slowed itself down meanwhile."""
    bytes_up: int = Field(ge=0)
    """Payload bytes that the agent's transport has sent since it started."""
    bytes_down: int = Field(ge=0)
    losses: Items[Annotated[int, Field(ge=0, lt=2**53)]] = Field(default=(), max_length=64)
    """Summed negative log-likelihood of the same images, in 2^-16 nats, at each logit scale of
    `learning.numerics.calibration`; empty where it was not measured."""
    variant: VariantName | None = Field(default=None, exclude_if=is_absent)
    """The variant of the frozen part that was measured; None for the reference."""


class Problem(Message):
    """Something on the device that its owner or the operator should mend."""

    kind: ClassVar[str] = "problem"
    about: str = Field(max_length=60)
    """Such as `image`, `class folder`, `model`."""
    text: str = Field(max_length=500)
    run: BootId | None = Field(default=None, exclude_if=is_absent)
    """The run that a coordinator tells it, where two may run under one name; absent: any."""


class WaitingClasses(Message):
    """Class folders whose names the registry does not know, with their number of images."""

    kind: ClassVar[str] = "waiting-classes"
    classes: PerClass[Images] = Field(max_length=MAX_WAITING_CLASSES)


LONGEST_SECONDS = 366 * 86_400


class Uncertainty(Strict):
    """Images that the model on the device is less certain about than before."""

    model_version: int = Field(ge=1, lt=2**31)
    images: int = Field(ge=1, le=10**9)
    value: float
    """Their mean relative entropy, 0 to 1, or novelty, 0 to 1, where the model tells that; in mode
    `fixed-rise` the mean entropy in nats."""
    baseline: float
    """Mean of the device's earlier images; in mode `fixed-rise` that of the batch before."""
    within_seconds: float = Field(default=86_400, ge=0, le=LONGEST_SECONDS)
    """Time in which the device measures a tenth of `quiet_images`, at its pace since it started.
    For so long its report may confirm those of others."""


class Transition(Message):
    """A device saw something new. Sent again until its receipt arrives."""

    kind: ClassVar[str] = "transition"
    stage: int = Field(ge=1, lt=2**31)
    """The stage that the device was in."""
    number: int = Field(ge=0, lt=2**31)
    """Counts the transitions of this installation of the device."""
    why: Literal["entropy", "class name"]
    classes: PerClass[Images] = Field(max_length=MAX_WAITING_CLASSES)
    """All class folders whose names the registry does not know, with their number of images."""
    uncertainty: Uncertainty | None = None
    """What was measured; given for `entropy`."""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if self.why == "entropy" and self.uncertainty is None:
            raise ValueError("uncertainty: is missing; a transition by entropy says what it saw")
        if self.why == "class name" and not self.classes:
            raise ValueError("classes: is empty; a transition by class name says which")
        return self
