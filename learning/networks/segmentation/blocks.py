"""A convolution with its normalisation and its curve: what all trunks and decoders are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleetledger.learning.networks.body import EPSILON, MOMENTUM, V
from fleetledger.learning.networks.plan import TensorPlan, convolution_plan, normalisation_plan
from fleetledger.learning.networks.segmentation.layers import Curve, DenseLayers


class Norm(NamedTuple):
    """Numbers of a batch normalisation; a tuple, which `torch.compile` takes as a default."""

    epsilon: float = EPSILON
    momentum: float = MOMENTUM


class ConvolutionWindow(NamedTuple):
    """How a kernel lies on the pixels; groups of channels see each other only."""

    side: int = 1
    stride: int = 1
    dilation: int = 1
    groups: int = 1


@dataclass(frozen=True)
class NormedConvolution:
    """A convolution without bias, a batch normalisation, a curve."""

    name: str
    """Of the convolution's tensors."""
    norm_name: str
    inputs: int
    outputs: int
    window: ConvolutionWindow = ConvolutionWindow()  # noqa: RUF009 -- a tuple
    curve: Curve = "relu"
    norm: Norm = Norm()  # noqa: RUF009 -- a tuple

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors of both."""
        side, groups = self.window.side, self.window.groups
        kernel = convolution_plan(self.name, self.inputs, self.outputs, side, groups)
        return [*kernel, *normalisation_plan(self.norm_name, self.outputs)]

    def compute(self, layers: DenseLayers[V], values: V) -> V:
        """Return maps (n, outputs, h, w)."""
        window, norm = self.window, self.norm
        values = layers.convolution(
            self.name, values, window.stride, window.dilation, window.groups
        )
        values = layers.batch_norm(self.norm_name, values, norm.epsilon, norm.momentum)
        return layers.curve(self.curve, values)


def in_sequence(
    name: str,
    inputs: int,
    outputs: int,
    window: ConvolutionWindow | None = None,
    curve: Curve = "relu",
    norm: Norm | None = None,
) -> NormedConvolution:
    """Return a convolution with the names of torchvision's sequences: `name`.0 and `name`.1."""
    return NormedConvolution(
        f"{name}.0",
        f"{name}.1",
        inputs,
        outputs,
        window or ConvolutionWindow(),
        curve,
        norm or Norm(),
    )


def biased_convolution_plan(name: str, inputs: int, outputs: int) -> list[TensorPlan]:
    """Return kernel and bias of a 1 x 1 convolution that no normalisation follows."""
    return [*convolution_plan(name, inputs, outputs, 1), TensorPlan(f"{name}.bias", (outputs,))]


class BesideEarlyMaps:
    """What decoders have in common whose features are `inner` maps beside the `low` early ones."""

    low: int
    inner: int

    @property
    def width(self) -> int:
        """Number of features of a pixel."""
        return self.low + self.inner

    @property
    def keeps_low(self) -> bool:
        """Features are as large as the early maps."""
        return True
