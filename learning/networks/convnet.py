"""A small convolutional network, for digits and for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fleetledger.learning.networks.body import WIDEST_STACKED, Layers, V
from fleetledger.learning.networks.plan import TensorPlan, convolution_plan, normalisation_plan


@dataclass(frozen=True)
class ConvNet:
    """3 x 3 convolutions, each normalised and halved in size; the mean over what is left.

    Inputs (n, channels, h, w) with sides of at least 2 to the number of `widths`.
    """

    channels: int
    widths: tuple[int, ...] = (32, 64)

    @property
    def width(self) -> int:
        """Number of features."""
        return self.widths[-1]

    @property
    def stackable(self) -> bool:
        """Narrow networks are; of wider ones each convolution is work enough for a device."""
        return max(self.widths) <= WIDEST_STACKED

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors layer by layer."""
        plans: list[TensorPlan] = []
        for layer, (inputs, outputs) in enumerate(pairwise((self.channels, *self.widths))):
            plans += convolution_plan(f"conv{layer}", inputs, outputs, 3)
            plans += normalisation_plan(f"norm{layer}", outputs)
        return plans

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return nothing: all tensors are trained."""
        return ()

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the layers before each ReLU: what distillation of maps watches."""
        return tuple(f"norm{layer}" for layer in range(len(self.widths)))

    def features(self, layers: Layers[V], inputs: V) -> V:
        """Return the features (n, width) of pictures."""
        values = inputs
        for layer in range(len(self.widths)):
            values = layers.batch_norm(f"norm{layer}", layers.convolution(f"conv{layer}", values))
            values = layers.max_pool(layers.relu(values))
        return layers.mean_pool(values)
