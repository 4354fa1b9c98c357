"""The settings that every method of statistics has beside its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict


class PartSettings(Strict):
    """What the settings of any method of statistics say, in fields or in properties."""

    if TYPE_CHECKING:

        @property
        def max_samples_per_part(self) -> int:
            """More samples go into several parts."""

        @property
        def min_samples_per_class(self) -> int:
            """The fewest samples of a class that a part may hold; fewer wait on the device."""

        @property
        def logit_scale(self) -> float:
            """Inverse temperature of a head until one is fitted: softmax(logit_scale * scores)."""


class StatisticsSettings(PartSettings):
    """How large parts are, and how sure a head is; a method's own settings add to it."""

    min_samples_per_class: int = Field(default=2, ge=1, le=1000)
    """Fewest samples of a class in a part; the sum of a single one is its feature."""
    max_samples_per_part: int = Field(default=1000, ge=1, le=1_000_000)
    """More samples go into several parts."""
    logit_scale: float = Field(default=10.0, gt=0, le=1e6)
    """Inverse temperature: probabilities = softmax(logit_scale * scores)."""

    @model_validator(mode="after")
    def _a_part_has_room(self) -> Self:
        if self.max_samples_per_part < self.min_samples_per_class:
            raise ValueError(
                f"max_samples_per_part: {self.max_samples_per_part}; a part must have room for "
                f"{count_of(self.min_samples_per_class, 'sample')}, the min_samples_per_class"
            )
        return self
