"""What an operator may set for the pooled head, and the defaults that were measured."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.learning.numerics.logistic import LogisticRule
from fleetledger.methods.statistics.part_settings import PartSettings

Publish = Literal["features", "moments"]


class PooledSettings(PartSettings):
    """The settings of one lineage: all devices use the same, and they never change within it."""

    publish: Publish = "features"
    """`features`: the features of every sample. `moments`: of every class the number of samples,
    and mean and variance of each feature."""
    moments_minimum: int = Field(default=5, ge=3, le=1000)
    """`moments`: fewest samples of a class in a part. Of one the mean is its feature, and of two,
    sum and sum of squares tell both values of every feature."""
    max_samples_per_part: int = Field(default=1000, ge=1, le=1_000_000)
    """More samples go into several parts."""
    draws_per_class: int = Field(default=200, ge=1, le=100_000)
    """`moments`: samples that the coordinator draws for every class."""

    l2: float = Field(default=3e-4, gt=0)
    """Weight of the penalty, for features of which the largest of an image is 1. Measured: from
    1e-4 to 1e-3 handwritten digits and CIFAR-100 on MobileNetV2 features change by 0.6 points."""
    tolerance: float = Field(default=1e-6, gt=0)
    """Largest magnitude in the gradient of the mean loss at which the head is done."""
    max_iterations: int = Field(default=100, ge=1, le=10_000)
    """Most Newton steps; a head that needs more is used as it is, with a remark."""
    memory_megabytes: int = Field(default=2048, ge=1, le=1_000_000)
    """Most that features and the fit may take at the coordinator; a fleet that needs more gets no
    new model."""
    logit_scale: float = Field(default=1.0, gt=0, le=1e6)
    """Inverse temperature: probabilities = softmax(logit_scale * scores). Logistic regression fits
    probabilities itself."""

    @property
    def min_samples_per_class(self) -> int:
        """The fewest samples of a class that a part may hold."""
        return self.moments_minimum if self.publish == "moments" else 1

    @property
    def rule(self) -> LogisticRule:
        """How the head is fitted."""
        return LogisticRule(self.l2, self.tolerance, self.max_iterations)

    @property
    def memory_bytes(self) -> int:
        """The bound on the coordinator's memory."""
        return self.memory_megabytes << 20
