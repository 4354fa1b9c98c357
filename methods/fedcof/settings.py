"""What an operator may set for FedCOF."""

from __future__ import annotations

from pydantic import Field

from fleetledger.learning.numerics.integer_features import QUANTISED_LARGEST
from fleetledger.methods.statistics.part_settings import StatisticsSettings


class FedcofSettings(StatisticsSettings):
    """The settings of one lineage: all devices use the same, and they never change within it."""

    shrinkage: float = Field(default=0.05, gt=0)
    """gamma, added to the variances of every class, for features of which the largest of an image
    is 1. The paper's 1 is for features as a network puts them out; where their largest is 4.3, as
    with MobileNetV2 on CIFAR-100, that is 0.05 here."""

    @property
    def added_variance(self) -> float:
        """The shrinkage for integer features, whose largest is 127."""
        return self.shrinkage * QUANTISED_LARGEST**2
