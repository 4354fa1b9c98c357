"""Residual trunks of bottleneck blocks with dilation (He et al., CVPR 2016; torchvision's v1.5).

The last groups keep the size and dilate instead, as DeepLab-v3 does. Names are torchvision's.

    resnet101   3, 4, 23, 3 blocks; groups 3 and 4 dilated: stride 8
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetledger.learning.networks.body import V
from fleetledger.learning.networks.plan import TensorPlan
from fleetledger.learning.networks.segmentation.blocks import ConvolutionWindow, NormedConvolution
from fleetledger.learning.networks.segmentation.layers import DenseLayers, TrunkMaps

_WIDENING = 4


@dataclass(frozen=True)
class Bottleneck:
    """1 x 1, 3 x 3 and 1 x 1 convolutions, narrow in the middle, and a shortcut."""

    name: str
    inputs: int
    narrow: int
    window: ConvolutionWindow
    """Of the middle convolution."""
    first: bool
    """Whether it begins a group: its shortcut is a convolution."""

    @property
    def outputs(self) -> int:
        """Channels that come out."""
        return _WIDENING * self.narrow

    def plan(self) -> Sequence[TensorPlan]:
        """Return the block's tensors."""
        parts = (*self._inner(), *([self._shortcut] if self.first else []))
        return [plan for part in parts for plan in part.plan()]

    def compute(self, layers: DenseLayers[V], values: V) -> V:
        """Return the block's maps (n, outputs, h, w)."""
        inner = values
        for part in self._inner():
            inner = part.compute(layers, inner)
        kept = self._shortcut.compute(layers, values) if self.first else values
        return layers.relu(layers.add(inner, kept))

    def _inner(self) -> Iterator[NormedConvolution]:
        name, narrow = self.name, self.narrow
        yield NormedConvolution(f"{name}.conv1", f"{name}.bn1", self.inputs, narrow)
        yield NormedConvolution(f"{name}.conv2", f"{name}.bn2", narrow, narrow, self.window)
        yield NormedConvolution(f"{name}.conv3", f"{name}.bn3", narrow, self.outputs, curve="none")

    @property
    def _shortcut(self) -> NormedConvolution:
        names = (f"{self.name}.downsample.0", f"{self.name}.downsample.1")
        window = ConvolutionWindow(stride=self.window.stride)
        return NormedConvolution(*names, self.inputs, self.outputs, window, "none")


@dataclass(frozen=True)
class ResidualTrunk:
    """Groups of `blocks` bottlenecks behind a 7 x 7 stem of `stem` channels and a pooling.

    The first group is as wide as four stems, and each one twice as wide as the one before. Every
    group but the first halves the size, or where it is `dilated` doubles the dilation.
    """

    blocks: tuple[int, ...]
    dilated: tuple[bool, ...]
    """For each group but the first."""
    stem: int = 64
    channels: int = 3

    @property
    def low_width(self) -> int:
        """Channels of the first group."""
        return _WIDENING * self.stem

    @property
    def high_width(self) -> int:
        """Channels of the last group."""
        return self.low_width << (len(self.blocks) - 1)

    @property
    def strides(self) -> tuple[int, int]:
        """Of the first group and of the last."""
        return 4, 4 << self.dilated.count(False)

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors from stem to last block."""
        blocks = [plan for group in self._groups() for block in group for plan in block.plan()]
        return [*self._stem.plan(), *blocks]

    def maps(self, layers: DenseLayers[V], pictures: V) -> TrunkMaps[V]:
        """Return the maps behind every group; the first are the early ones."""
        values = layers.max_pool(self._stem.compute(layers, pictures), 3)
        groups = []
        for group in self._groups():
            for block in group:
                values = block.compute(layers, values)
            groups.append(values)
        return TrunkMaps(tuple(groups), groups[0])

    @property
    def _stem(self) -> NormedConvolution:
        window = ConvolutionWindow(7, stride=2)
        return NormedConvolution("backbone.conv1", "backbone.bn1", self.channels, self.stem, window)

    def _groups(self) -> Iterator[list[Bottleneck]]:
        inputs, dilation = self.stem, 1
        for group, count in enumerate(self.blocks):
            stride, before = 1, dilation
            if group and self.dilated[group - 1]:
                dilation *= 2
            elif group:
                stride = 2
            blocks = []
            for place in range(count):
                # The first block still sees pixels as far apart as those before it left them.
                window = (
                    ConvolutionWindow(3, dilation=dilation)
                    if place
                    else ConvolutionWindow(3, stride, before)
                )
                name = f"backbone.layer{group + 1}.{place}"
                blocks.append(Bottleneck(name, inputs, self.stem << group, window, not place))
                inputs = blocks[-1].outputs
            yield blocks
