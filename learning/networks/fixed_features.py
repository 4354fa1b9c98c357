"""Bodies that nobody trains: a backbone's features as they are, or mapped once by a fixed matrix.

What FedHAF is compared with to see what its adapter brings. They have no tensors, so nothing of
them is sent; both sides know the matrix from its seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.body import Layers, V
from fleetledger.learning.networks.plan import TensorPlan


@dataclass(frozen=True)
class IdentityBody:
    """Features (..., n, width) as they come."""

    width: int

    @property
    def stackable(self) -> bool:
        """Nothing is computed."""
        return True

    def plan(self) -> Sequence[TensorPlan]:
        """Return nothing."""
        return ()

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return nothing."""
        return ()

    def features(self, layers: Layers[V], inputs: V) -> V:
        """Return the inputs."""
        return layers.rows(inputs, 1)


@dataclass(frozen=True)
class FixedProjection:
    """Features P x (..., n, width); P depends on seed and shape alone and is never trained."""

    inputs: int
    width: int = 256
    seed: int = 1

    @property
    def stackable(self) -> bool:
        """All agents share one matrix."""
        return True

    def plan(self) -> Sequence[TensorPlan]:
        """Return nothing: the matrix is neither trained nor sent."""
        return ()

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return nothing: no file holds the matrix."""
        return ()

    def features(self, layers: Layers[V], inputs: V) -> V:
        """Return P x (..., n, width)."""
        return layers.project(inputs, projection(self.inputs, self.width, self.seed))


@cache
def projection(inputs: int, width: int, seed: int) -> npt.NDArray[np.float32]:
    """Return P (width, inputs), uniform with variance 1 / inputs; not to be changed."""
    return TensorPlan("projection", (width, inputs), sqrt(3 / inputs)).initial(seed)
