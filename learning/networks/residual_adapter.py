"""A light adapter behind frozen features, which begins as nothing.

    x = (h - centre) / spread         what the fleet's sums say of each feature; nobody trains it
    F = x + B relu(A x)               A: d -> rank, B: rank -> d, which begins as zero

So a head that was solved for h, brought to x, scores the same before anybody has trained. A layer
of this shape beside what is frozen: Houlsby et al., "Parameter-Efficient Transfer Learning for
NLP", ICML 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from fleetledger.learning.networks.body import Layers, V
from fleetledger.learning.networks.plan import TensorPlan

CENTRE, SPREAD = "centre", "spread"
"""The tensors (d,) that nobody trains."""
UP = "up.weight"
"""B, by its tensor's name."""
_DOWN = "down"


@dataclass(frozen=True)
class ResidualAdapter:
    """From features h (..., n, width) to adapted ones of the same number."""

    width: int
    rank: int = 64

    @property
    def stackable(self) -> bool:
        """Linear layers exist for a stack of agents."""
        return True

    def plan(self) -> Sequence[TensorPlan]:
        """Return A and B: 2 d rank numbers."""
        return (
            TensorPlan(f"{_DOWN}.weight", (self.rank, self.width), sqrt(3 / self.width)),
            TensorPlan(UP, (self.width, self.rank)),
        )

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return centre and spread."""
        return (
            TensorPlan(CENTRE, (self.width,)),
            TensorPlan(SPREAD, (self.width,), centre=1.0),
        )

    def features(self, layers: Layers[V], inputs: V) -> V:
        """Return F (..., n, width) of the backbone's features."""
        even = layers.standardise(CENTRE, SPREAD, inputs)
        return layers.add(even, layers.linear("up", layers.relu(layers.linear(_DOWN, even))))
