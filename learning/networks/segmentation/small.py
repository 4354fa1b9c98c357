"""A small trunk and decoder for scenes of digits and for tests: seconds of training on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from learning.networks.body import V
from learning.networks.plan import TensorPlan
from learning.networks.segmentation.blocks import NormedConvolution, Window
from learning.networks.segmentation.layers import DecoderMaps, DenseLayers, TrunkMaps


@dataclass(frozen=True)
class SmallTrunk:
    """3 x 3 convolutions at strides 1, 2 and 4, the last one dilated once more.

    A pixel of the last maps sees 25 x 25 pixels, a digit of the scenes and its surroundings.
    """

    channels: int = 3
    widths: tuple[int, int, int] = (16, 32, 64)

    @property
    def low_width(self) -> int:
        """Channels at stride 2."""
        return self.widths[1]

    @property
    def high_width(self) -> int:
        """Channels at stride 4."""
        return self.widths[2]

    @property
    def strides(self) -> tuple[int, int]:
        """Of the second convolution and of the last."""
        return 2, 4

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors layer by layer."""
        return [plan for part in self._parts() for plan in part.plan()]

    def maps(self, layers: DenseLayers[V], pictures: V) -> TrunkMaps[V]:
        """Return the maps of strides 1, 2 and 4; those of stride 2 are the early ones."""
        first, second, third, last = self._parts()
        fine = first.compute(layers, pictures)
        middle = second.compute(layers, fine)
        coarse = last.compute(layers, third.compute(layers, middle))
        return TrunkMaps((fine, middle, coarse), middle)

    def _parts(self) -> tuple[NormedConvolution, ...]:
        one, two, three = self.widths
        return (
            _part(0, self.channels, one, Window(3)),
            _part(1, one, two, Window(3, stride=2)),
            _part(2, two, three, Window(3, stride=2)),
            _part(3, three, three, Window(3, dilation=2)),
        )


@dataclass(frozen=True)
class Merge:
    """Last maps resized to the early ones, both through one 3 x 3 convolution: that is the tap."""

    low: int
    high: int
    width: int = 48

    @property
    def keeps_low(self) -> bool:
        """Features are as large as the early maps."""
        return True

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors of the one convolution."""
        return self._part.plan()

    def features(self, layers: DenseLayers[V], maps: TrunkMaps[V]) -> DecoderMaps[V]:
        """Return features of pixels (n, width, h, w)."""
        both = layers.concatenate((maps.low, layers.resize(maps.high, maps.low)))
        merged = self._part.compute(layers, both)
        return DecoderMaps(merged, merged)

    @property
    def _part(self) -> NormedConvolution:
        names = ("classifier.conv", "classifier.norm")
        return NormedConvolution(*names, self.low + self.high, self.width, Window(3))


def _part(number: int, inputs: int, outputs: int, window: Window) -> NormedConvolution:
    names = (f"backbone.conv{number}", f"backbone.norm{number}")
    return NormedConvolution(*names, inputs, outputs, window)
