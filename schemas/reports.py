"""What a device tells about itself: accuracy on its own held-out images, new classes, faults."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator
from typing_extensions import Self

from schemas.contributions import MAX_CLASSES
from schemas.message import Message, Strict
from schemas.values import Digest, PerClass


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
    model_version: int = Field(ge=1)
    manifest: Digest
    results: PerClass[ClassResult] = Field(max_length=MAX_CLASSES)
    provider: str = Field(max_length=60)
    seconds: float = Field(ge=0)
    bytes_up: int = Field(ge=0)
    """Payload bytes that the agent's transport has sent since it started."""
    bytes_down: int = Field(ge=0)


class Problem(Message):
    """Something on the device that its owner or the operator should mend."""

    kind: ClassVar[str] = "problem"
    about: str = Field(max_length=60)
    """Such as `image`, `class folder`, `model`."""
    text: str = Field(max_length=500)


class WaitingClasses(Message):
    """Class folders whose names the registry does not know, with their number of images."""

    kind: ClassVar[str] = "waiting-classes"
    classes: PerClass[Annotated[int, Field(ge=0, le=10**9)]] = Field(max_length=1000)
