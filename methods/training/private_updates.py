"""Settings of differentially private rounds: the clip of an update, and the noise on their mean.

`coordinator` adds noise to the exact sum; `cohort` has every device add its share, so that the sum
of at least `least` answers has all of it; `local` has every device add all of it to its own answer.
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.learning.privacy.accounting import MOST_NOISE, Spending, epsilon_of, multiplier_for
from fleetledger.runtime.strict import Strict

Where = Literal["coordinator", "cohort", "local"]


class UpdatePrivacy(Strict):
    """How an answer to a round is clipped, and who adds which noise: docs/private-rounds.md."""

    clip: float = Field(gt=0, le=1e6)
    """Largest L2 norm of an update; the device scales a longer one down."""
    noise: float = Field(default=0.0, ge=0, le=MOST_NOISE)
    """Noise multiplier: the noise's standard deviation, in units of the clip. 0 only clips."""
    where: Where = "coordinator"
    """Who adds the noise: the coordinator to the sum, the cohort together, or each device alone."""
    least: int = Field(default=1, ge=1, le=1_000_000)
    """Answers without which a round comes to nothing. With "cohort" each device adds a share of
    noise / sqrt(least)."""
    epsilon: float | None = Field(default=None, gt=0, le=1000)
    """Budget of a device, all its answers together; one that has spent it is asked no more. Left
    out, spending is counted and nothing is refused."""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    """Chance with which epsilon may fail; less than one in the number of devices."""

    @model_validator(mode="after")
    def _shares_among_some(self) -> Self:
        if self.where == "cohort" and self.least < 2:
            raise ValueError(
                "least: 1 answer shares no noise; give the fewest devices that must answer, or "
                "where = 'local'"
            )
        return self

    @model_validator(mode="after")
    def _affords_an_answer(self) -> Self:
        if self.epsilon is None:
            return self
        if not self.noise:
            raise ValueError("noise: 0 hides nothing; give a multiplier, or leave epsilon out")
        one = epsilon_of([Spending(self.noise)], self.delta)
        if one > self.epsilon:
            least = multiplier_for(self.epsilon, self.delta)
            raise ValueError(
                f"noise: with {self.noise:g} one answer spends epsilon {one:.3g}, more than "
                f"{self.epsilon:g}; give {least:.3g} or more"
            )
        return self

    @property
    def central(self) -> float:
        """Deviation of the noise that the coordinator adds, in units of the clip; 0 for none."""
        return self.noise if self.where == "coordinator" else 0.0

    @property
    def own(self) -> float:
        """Deviation of the noise that a device adds, in units of the clip; 0 for none."""
        match self.where:
            case "local":
                return self.noise
            case "cohort":
                return self.noise / sqrt(self.least)
            case "coordinator":
                return 0.0
