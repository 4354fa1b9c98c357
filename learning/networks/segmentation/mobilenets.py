"""MobileNet trunks for dense prediction, with torchvision's names under `backbone.`.

Pictures are halved four times; where the network for whole pictures would halve a fifth time, the
blocks dilate instead, so the last maps have stride 16. Early maps have stride 8.

    mobilenet_v2         Sandler et al., CVPR 2018, table 2, without the last 1 x 1 convolution
                         (section 6.3); groups end at strides 2, 4, 8, 16, 16
    mobilenet_v3_large   Howard et al., ICCV 2019, table 1; groups end at strides 2, 4, 8, 16, 16;
                         the early maps are those of the first block of stride 8, as torchvision's
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetledger.learning.networks.body import V
from fleetledger.learning.networks.plan import TensorPlan
from fleetledger.learning.networks.segmentation.blocks import (
    ConvolutionWindow,
    Norm,
    NormedConvolution,
    in_sequence,
)
from fleetledger.learning.networks.segmentation.inverted import InvertedResidual
from fleetledger.learning.networks.segmentation.layers import Curve, DenseLayers, TrunkMaps

_Part = InvertedResidual | NormedConvolution

_V2_GROUPS = (  # expansion, channels, repeats, stride of the first, dilation
    (1, 16, 1, 1, 1),
    (6, 24, 2, 2, 1),
    (6, 32, 3, 2, 1),
    (6, 64, 4, 2, 1),
    (6, 96, 3, 1, 1),
    (6, 160, 3, 1, 2),
    (6, 320, 1, 1, 2),
)
_V2_FIRST_DILATED = 14
"""Number of the block that halved the size a fifth time."""
_V3_NORM = Norm(epsilon=1e-3, momentum=0.01)
_V3_BLOCKS: tuple[tuple[int, int, int, int, Curve, int, int], ...] = (
    # kernel, wide, outputs, squeezed, curve, stride, dilation
    (3, 16, 16, 0, "relu", 1, 1),
    (3, 64, 24, 0, "relu", 2, 1),
    (3, 72, 24, 0, "relu", 1, 1),
    (5, 72, 40, 24, "relu", 2, 1),
    (5, 120, 40, 32, "relu", 1, 1),
    (5, 120, 40, 32, "relu", 1, 1),
    (3, 240, 80, 0, "hard_swish", 2, 1),
    (3, 200, 80, 0, "hard_swish", 1, 1),
    (3, 184, 80, 0, "hard_swish", 1, 1),
    (3, 184, 80, 0, "hard_swish", 1, 1),
    (3, 480, 112, 120, "hard_swish", 1, 1),
    (3, 672, 112, 168, "hard_swish", 1, 1),
    (5, 672, 160, 168, "hard_swish", 1, 2),
    (5, 960, 160, 240, "hard_swish", 1, 2),
    (5, 960, 160, 240, "hard_swish", 1, 2),
)


@dataclass(frozen=True)
class MobileTrunk:
    """Blocks in a row; some of their maps are those of groups, one the early maps."""

    parts: tuple[_Part, ...]
    ends: tuple[int, ...]
    """Numbers of the parts that end a group, the last part among them."""
    low: int
    """Number of the part whose maps are the early ones."""
    strides: tuple[int, int] = (8, 16)

    @property
    def low_width(self) -> int:
        """Channels of the early maps."""
        return self.parts[self.low].outputs

    @property
    def high_width(self) -> int:
        """Channels of the last maps."""
        return self.parts[-1].outputs

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors from stem to last block."""
        return [plan for part in self.parts for plan in part.plan()]

    def maps(self, layers: DenseLayers[V], pictures: V) -> TrunkMaps[V]:
        """Return the maps behind the groups, and the early ones."""
        values, kept = pictures, {}
        for number, part in enumerate(self.parts):
            values = part.compute(layers, values)
            if number in (self.low, *self.ends):
                kept[number] = values
        return TrunkMaps(tuple(kept[end] for end in self.ends), kept[self.low])


def mobilenet_v2() -> MobileTrunk:
    """Return MobileNetV2's trunk: 320 channels, 32 early ones."""
    stem = in_sequence("backbone.0", 3, 32, ConvolutionWindow(3, stride=2), "relu6")
    parts: list[_Part] = [stem]
    for expansion, outputs, repeats, stride, dilation in _V2_GROUPS:
        for repeat in range(repeats):
            # The first dilated block still sees pixels as far apart as those before it left them.
            spread = dilation if repeat or len(parts) > _V2_FIRST_DILATED else 1
            window = ConvolutionWindow(3, 1 if repeat else stride, spread)
            name, inputs = f"backbone.{len(parts)}", parts[-1].outputs
            parts.append(InvertedResidual(name, inputs, expansion * inputs, outputs, window))
    return MobileTrunk(tuple(parts), ends=(1, 3, 6, 13, 17), low=6)


def mobilenet_v3_large() -> MobileTrunk:
    """Return MobileNetV3-Large's trunk: 960 channels, 40 early ones."""
    stem = in_sequence("backbone.0", 3, 16, ConvolutionWindow(3, stride=2), "hard_swish", _V3_NORM)
    parts: list[_Part] = [stem]
    for side, wide, outputs, squeeze, curve, stride, dilation in _V3_BLOCKS:
        name, inputs = f"backbone.{len(parts)}", parts[-1].outputs
        window = ConvolutionWindow(side, stride, dilation)
        parts.append(
            InvertedResidual(
                name, inputs, wide, outputs, window, curve, _V3_NORM, squeeze, generation=3
            )
        )
    last = parts[-1].outputs
    parts.append(
        in_sequence(
            f"backbone.{len(parts)}", last, 6 * last, ConvolutionWindow(), "hard_swish", _V3_NORM
        )
    )
    return MobileTrunk(tuple(parts), ends=(1, 3, 6, 12, 16), low=4)
