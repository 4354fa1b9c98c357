"""Residual networks for small pictures (He et al., CVPR 2016), with torchvision's names.

The stem is one 3 x 3 convolution of stride 1 without pooling. Groups of basic blocks follow, each
group but the first halving the size; where sizes differ the shortcut is a 1 x 1 convolution.
A `signed` network leaves the last ReLU out, so that features may point anywhere, as a cosine head
wants them (LUCIR: Hou et al., CVPR 2019).

    resnet18   2, 2, 2, 2 blocks of 64, 128, 256, 512 channels
    resnet32   5, 5, 5 blocks of 16, 32, 64 channels
    resnet20   3, 3, 3 blocks of 16, 32, 64 channels
    resnet8    1, 1, 1 blocks of 16, 32, 64 channels
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetledger.learning.networks.body import WIDEST_STACKED, Layers, V
from fleetledger.learning.networks.plan import TensorPlan, convolution_plan, normalisation_plan


@dataclass(frozen=True)
class ResidualBlock:
    """A basic block: two 3 x 3 convolutions and a shortcut."""

    name: str
    inputs: int
    outputs: int
    stride: int
    signed: bool = False
    """Whether the sum with the shortcut is the result, without a ReLU."""

    @property
    def projects(self) -> bool:
        """Whether the shortcut needs a convolution of its own."""
        return self.stride != 1 or self.inputs != self.outputs

    def plan(self) -> Sequence[TensorPlan]:
        """Return the block's tensors."""
        plans = convolution_plan(f"{self.name}.conv1", self.inputs, self.outputs, 3)
        plans += normalisation_plan(f"{self.name}.bn1", self.outputs)
        plans += convolution_plan(f"{self.name}.conv2", self.outputs, self.outputs, 3)
        plans += normalisation_plan(f"{self.name}.bn2", self.outputs)
        if self.projects:
            plans += convolution_plan(f"{self.name}.downsample.0", self.inputs, self.outputs, 1)
            plans += normalisation_plan(f"{self.name}.downsample.1", self.outputs)
        return plans

    def compute(self, layers: Layers[V], values: V) -> V:
        """Return the block's maps (n, outputs, h, w)."""
        name = self.name
        inner = layers.convolution(f"{name}.conv1", values, self.stride)
        inner = layers.relu(layers.batch_norm(f"{name}.bn1", inner))
        inner = layers.batch_norm(f"{name}.bn2", layers.convolution(f"{name}.conv2", inner))
        if self.projects:
            values = layers.convolution(f"{name}.downsample.0", values, self.stride)
            values = layers.batch_norm(f"{name}.downsample.1", values)
        total = layers.add(inner, values, name)
        return total if self.signed else layers.relu(total)


@dataclass(frozen=True)
class ResNet:
    """Groups of `blocks` basic blocks with `widths` channels, on pictures (n, channels, h, w)."""

    channels: int
    widths: tuple[int, ...] = (64, 128, 256, 512)
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    signed: bool = False
    """Whether the last block ends without a ReLU."""

    @property
    def width(self) -> int:
        """Number of features."""
        return self.widths[-1]

    @property
    def stackable(self) -> bool:
        """Narrow networks are; of wider ones each convolution is work enough for a device."""
        return max(self.widths) <= WIDEST_STACKED

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors from stem to last block."""
        plans = convolution_plan("conv1", self.channels, self.widths[0], 3)
        plans += normalisation_plan("bn1", self.widths[0])
        for block in self._blocks():
            plans += block.plan()
        return plans

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return nothing: all tensors are trained."""
        return ()

    def features(self, layers: Layers[V], inputs: V) -> V:
        """Return the features (n, width): the mean over all pixels of the last maps."""
        values = layers.relu(layers.batch_norm("bn1", layers.convolution("conv1", inputs)))
        for block in self._blocks():
            values = block.compute(layers, values)
        return layers.mean_pool(values)

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the groups' last sums, before their ReLU: what distillation of maps watches."""
        return tuple(f"layer{group + 1}.{count - 1}" for group, count in enumerate(self.blocks))

    def _blocks(self) -> Iterator[ResidualBlock]:
        inputs, last = self.widths[0], (len(self.blocks) - 1, self.blocks[-1] - 1)
        for group, (outputs, count) in enumerate(zip(self.widths, self.blocks, strict=True)):
            for place in range(count):
                stride = 2 if group and not place else 1
                signed = self.signed and (group, place) == last
                yield ResidualBlock(f"layer{group + 1}.{place}", inputs, outputs, stride, signed)
                inputs = outputs
