"""What an operator may set for Fed3R."""

from __future__ import annotations

from pydantic import Field

from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST
from fleetledger.methods.statistics.part_settings import StatisticsSettings


class Fed3rSettings(StatisticsSettings):
    """The settings of one lineage: all devices use the same, and they never change within it."""

    ridge: float = Field(default=0.01, gt=0)
    """lambda, for features of which the largest of an image is 1."""
    min_samples_per_class: int = Field(default=1, ge=1, le=1000)
    """Fewest samples of a class in a part; the sum of a single one is its feature."""

    @property
    def added_ridge(self) -> float:
        """The ridge for integer features, whose largest is 127."""
        return self.ridge * QUANTISED_LARGEST**2
