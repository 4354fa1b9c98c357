"""A multilayer perceptron: linear layers with batch normalisation, ReLU and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fleetledger.learning.networks.body import Layers, V
from fleetledger.learning.networks.plan import TensorPlan, linear_plan, normalisation_plan


@dataclass(frozen=True)
class Mlp:
    """`hidden` layers on inputs (..., n, inputs); the last one's width is that of the features."""

    inputs: int
    hidden: tuple[int, ...] = (128, 64)
    normalised: bool = True
    dropout: float = 0.0
    axes: int = 1
    """Of one sample: 1 for a row of features, 3 for a picture (c, h, w)."""

    @property
    def width(self) -> int:
        """Number of features."""
        return self.hidden[-1]

    @property
    def stackable(self) -> bool:
        """Linear layers and their normalisation exist for a stack of agents."""
        return True

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors layer by layer."""
        plans: list[TensorPlan] = []
        for layer, (inputs, outputs) in enumerate(pairwise((self.inputs, *self.hidden))):
            plans += linear_plan(f"linear{layer}", inputs, outputs)
            if self.normalised:
                plans += normalisation_plan(f"norm{layer}", outputs)
        return plans

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return nothing: all tensors are trained."""
        return ()

    def features(self, layers: Layers[V], inputs: V) -> V:
        """Return the last hidden layer's values (..., n, width); pictures become rows."""
        values = layers.rows(inputs, self.axes)
        for layer in range(len(self.hidden)):
            values = layers.linear(f"linear{layer}", values)
            if self.normalised:
                values = layers.batch_norm(f"norm{layer}", values)
            values = layers.dropout(layers.relu(values), self.dropout, layer)
        return values
