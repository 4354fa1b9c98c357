"""DeepLab-v3's decoder: atrous spatial pyramid pooling (Chen et al., arXiv 1706.05587).

Five branches see the trunk's last maps: a 1 x 1 convolution, three 3 x 3 convolutions with growing
dilation, and the mean over all pixels. They are projected together, which is the tap, and pass
dropout and one more 3 x 3 convolution. Names and numbers are torchvision's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetledger.learning.networks.body import V
from fleetledger.learning.networks.plan import TensorPlan
from fleetledger.learning.networks.segmentation.blocks import (
    ConvolutionWindow,
    NormedConvolution,
    in_sequence,
)
from fleetledger.learning.networks.segmentation.layers import DecoderMaps, DenseLayers, TrunkMaps

_DROPOUT_LAYER = 0


@dataclass(frozen=True)
class Aspp:
    """The decoder behind maps of `inputs` channels."""

    inputs: int
    width: int = 256
    rates: tuple[int, ...] = (12, 24, 36)
    dropout: float = 0.5

    @property
    def keeps_low(self) -> bool:
        """Features are as large as the trunk's last maps."""
        return False

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors of all branches and what follows."""
        parts = (*self._branches(), self._mean, self._projection, self._last)
        return [plan for part in parts for plan in part.plan()]

    def features(self, layers: DenseLayers[V], maps: TrunkMaps[V]) -> DecoderMaps[V]:
        """Return features of pixels (n, width, h, w)."""
        seen = [branch.compute(layers, maps.high) for branch in self._branches()]
        mean = self._mean.compute(layers, layers.pixel_mean(maps.high))
        seen.append(layers.resize(mean, maps.high))
        projected = self._projection.compute(layers, layers.concatenate(seen))
        kept = layers.dropout(projected, self.dropout, _DROPOUT_LAYER)
        return DecoderMaps(self._last.compute(layers, kept), projected)

    def _branches(self) -> Iterator[NormedConvolution]:
        yield in_sequence("classifier.0.convs.0", self.inputs, self.width)
        for number, rate in enumerate(self.rates, start=1):
            name, window = f"classifier.0.convs.{number}", ConvolutionWindow(3, dilation=rate)
            yield in_sequence(name, self.inputs, self.width, window)

    @property
    def _mean(self) -> NormedConvolution:
        # The mean itself is part 0 of torchvision's sequence.
        name = f"classifier.0.convs.{len(self.rates) + 1}"
        return NormedConvolution(f"{name}.1", f"{name}.2", self.inputs, self.width)

    @property
    def _projection(self) -> NormedConvolution:
        branches = len(self.rates) + 2
        return in_sequence("classifier.0.project", branches * self.width, self.width)

    @property
    def _last(self) -> NormedConvolution:
        names = ("classifier.1", "classifier.2")
        return NormedConvolution(*names, self.width, self.width, ConvolutionWindow(3))
