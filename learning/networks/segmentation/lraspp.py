"""LR-ASPP, the light decoder of MobileNetV3 (Howard et al., ICCV 2019, section 6.4).

    g = relu(norm(conv high)) * sigmoid(conv(mean of high))       a gate over the channels
    f = (low, g resized to low)

The head's row of a class is torchvision's `low_classifier` row beside its `high_classifier` row,
its bias the sum of both: z = w_low . low + w_high . g + b. The tap is g.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetledger.learning.networks.body import V
from fleetledger.learning.networks.plan import TensorPlan, convolution_plan
from fleetledger.learning.networks.segmentation.blocks import BesideEarlyMaps, in_sequence
from fleetledger.learning.networks.segmentation.layers import DecoderMaps, DenseLayers, TrunkMaps

_BRANCH, _GATE = "classifier.cbr", "classifier.scale.1"


@dataclass(frozen=True)
class LiteAspp(BesideEarlyMaps):
    """The decoder behind maps of `low` and `high` channels, with `inner` channels of its own."""

    low: int
    high: int
    inner: int = 128

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors of branch and gate."""
        branch = in_sequence(_BRANCH, self.high, self.inner).plan()
        return [*branch, *convolution_plan(_GATE, self.high, self.inner, 1)]

    def features(self, layers: DenseLayers[V], maps: TrunkMaps[V]) -> DecoderMaps[V]:
        """Return features of pixels (n, low + inner, h, w)."""
        branch = in_sequence(_BRANCH, self.high, self.inner).compute(layers, maps.high)
        gate = layers.convolution(_GATE, layers.pixel_mean(maps.high))
        gated = layers.multiply(branch, layers.curve("sigmoid", gate))
        return DecoderMaps(layers.concatenate((maps.low, layers.resize(gated, maps.low))), gated)
