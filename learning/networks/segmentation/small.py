"""A small trunk and decoder for scenes of digits and for tests: seconds of training on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetledger.learning.networks.body import V
from fleetledger.learning.networks.plan import TensorPlan
from fleetledger.learning.networks.segmentation.blocks import (
    BesideEarlyMaps,
    ConvolutionWindow,
    NormedConvolution,
)
from fleetledger.learning.networks.segmentation.layers import DecoderMaps, DenseLayers, TrunkMaps


@dataclass(frozen=True)
class SmallTrunk:
    """3 x 3 convolutions at strides 2, 4 and 8, three of them at the last.

    A pixel of the last maps sees 47 x 47 pixels: a digit of the scenes and its surroundings.
    """

    channels: int = 3
    widths: tuple[int, int, int] = (16, 32, 64)

    @property
    def low_width(self) -> int:
        """Channels at stride 2."""
        return self.widths[0]

    @property
    def high_width(self) -> int:
        """Channels at stride 8."""
        return self.widths[2]

    @property
    def strides(self) -> tuple[int, int]:
        """Of the first convolution and of the last."""
        return 2, 8

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors layer by layer."""
        return [plan for part in self._parts() for plan in part.plan()]

    def maps(self, layers: DenseLayers[V], pictures: V) -> TrunkMaps[V]:
        """Return the maps of strides 2, 4 and 8; those of stride 2 are the early ones."""
        fine, middle, *coarse = self._parts()
        large = fine.compute(layers, pictures)
        between = middle.compute(layers, large)
        small = between
        for part in coarse:
            small = part.compute(layers, small)
        return TrunkMaps((large, between, small), large)

    def _parts(self) -> tuple[NormedConvolution, ...]:
        one, two, three = self.widths
        return (
            _part(0, self.channels, one, stride=2),
            _part(1, one, two, stride=2),
            _part(2, two, three, stride=2),
            _part(3, three, three),
            _part(4, three, three),
        )


@dataclass(frozen=True)
class Merge(BesideEarlyMaps):
    """The trunk's maps brought together from small to large.

    The last maps at the size of those before, both through a 3 x 3 convolution, are the tap; at the
    size of the early maps and beside them, they are the features.
    """

    low: int
    middle: int
    high: int
    inner: int = 32

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors of the one convolution."""
        return self._part.plan()

    def features(self, layers: DenseLayers[V], maps: TrunkMaps[V]) -> DecoderMaps[V]:
        """Return features of pixels (n, low + inner, h, w)."""
        middle = maps.groups[-2]
        both = layers.concatenate((middle, layers.resize(maps.high, middle)))
        merged = self._part.compute(layers, both)
        features = layers.concatenate((maps.low, layers.resize(merged, maps.low)))
        return DecoderMaps(features, merged)

    @property
    def _part(self) -> NormedConvolution:
        names = ("classifier.conv", "classifier.norm")
        return NormedConvolution(*names, self.middle + self.high, self.inner, ConvolutionWindow(3))


def _part(number: int, inputs: int, outputs: int, stride: int = 1) -> NormedConvolution:
    names = (f"backbone.conv{number}", f"backbone.norm{number}")
    return NormedConvolution(*names, inputs, outputs, ConvolutionWindow(3, stride))
