"""How devices keep their numbers to themselves: what the operator set, and a device is told."""

from __future__ import annotations

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


class Privacy(Strict):
    """What hides a device's numbers, of which each part may be left out."""

    masks: Masks | None = None
