"""How devices keep their numbers to themselves: what the operator set, and a device is told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.cohorts import LEAST_MEMBERS, MOST_MEMBERS


class Masks(Strict):
    """Numbers are summed behind masks, in cohorts of so many devices."""

    least: int = Field(default=8, ge=LEAST_MEMBERS, le=MOST_MEMBERS)
    """Fewest members of a cohort."""
    most: int = Field(default=16, ge=LEAST_MEMBERS, le=MOST_MEMBERS)
    """So many that are ready are a cohort at once."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least: {self.least}; give at most {self.most}, the most members")
        return self


class Noise(Strict):
    """Discrete Gaussian noise on what a device gives, and the budget that it keeps to."""

    protects: Literal["image", "device"]
    """Neighbours differ in one image of a part, or in all that one device gives."""
    epsilon: float = Field(gt=0, le=1000)
    """Budget: what all that a device ever gives may spend at `delta`."""
    delta: float = Field(gt=0, lt=1)
    multiplier: float = Field(gt=0, le=1e6)
    """Deviation of the noise of one part, over the largest length by which what is protected can
    change the part."""
    clip: int = Field(default=12, ge=1, le=127)
    """Of statistics: features of an image are scaled down until the root of their mean square is at
    most so much, so that an image's length is known."""


class Privacy(Strict):
    """What hides a device's numbers, of which each part may be left out."""

    masks: Masks | None = None
    noise: Noise | None = None
