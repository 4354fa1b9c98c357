"""How devices keep their numbers to themselves: what the operator set, and a device is told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.cohorts import LEAST_MEMBERS, MOST_MEMBERS, threshold_of


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

    @property
    def least_honest(self) -> int:
        """Members that any opened sum has, whatever a coordinator tells each of them."""
        return min(2 * threshold_of(n) - n for n in range(self.least, self.most + 1))


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
    sharers: int = Field(default=1, ge=1, le=MOST_MEMBERS)
    """Members of a cohort whose noise together is that of a part; 1 where each adds all of it."""

    @property
    def said(self) -> str:
        """Budget, and whom it protects, in words."""
        whom = "one image" if self.protects == "image" else "all that one device gives"
        who = (
            f"any {self.sharers} members of a cohort add"
            if self.sharers > 1
            else "each device adds"
        )
        return (
            f"whether {whom} was there is hidden up to epsilon {self.epsilon:g} at delta "
            f"{self.delta:g}, by noise that {who} (multiplier {self.multiplier:.4g})"
        )


class Privacy(Strict):
    """What hides a device's numbers, of which each part may be left out."""

    masks: Masks | None = None
    noise: Noise | None = None

    @property
    def said(self) -> str:
        """The noise in a sentence for people; empty where there is none."""
        return "" if self.noise is None else f"Differential privacy: {self.noise.said}."
