"""Inverted residual blocks: wide in the middle, one filter per channel there (MobileNetV2 and V3).

    expand 1 x 1 -> depthwise -> [squeeze and excite] -> narrow 1 x 1, plus the input where it fits

Squeeze and excite multiplies each channel by hard_sigmoid(fc2(relu(fc1(mean)))) (Hu et al., CVPR
2018, with MobileNetV3's gate). The generations number their parts otherwise in torchvision's
state dicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fleetledger.learning.networks.body import V
from fleetledger.learning.networks.plan import TensorPlan
from fleetledger.learning.networks.segmentation.blocks import (
    ConvolutionWindow,
    Norm,
    NormedConvolution,
    biased_convolution_plan,
)
from fleetledger.learning.networks.segmentation.layers import Curve, DenseLayers


@dataclass(frozen=True)
class InvertedResidual:
    """One block, from `inputs` over `wide` to `outputs` channels."""

    name: str
    inputs: int
    wide: int
    outputs: int
    window: ConvolutionWindow
    """Of the depthwise convolution; its groups are its channels, whatever is given here."""
    curve: Curve = "relu6"
    norm: Norm = Norm()  # noqa: RUF009 -- a tuple
    squeeze: int = 0
    """Channels that the gate is squeezed to; 0 for no gate."""
    generation: Literal[2, 3] = 2
    """Of MobileNet: whose names the tensors have."""

    def plan(self) -> Sequence[TensorPlan]:
        """Return the block's tensors."""
        parts = (*self._widening(), self._depthwise, self._narrowing)
        plans = [plan for part in parts for plan in part.plan()]
        if self.squeeze:
            plans += biased_convolution_plan(f"{self._gate}.fc1", self.wide, self.squeeze)
            plans += biased_convolution_plan(f"{self._gate}.fc2", self.squeeze, self.wide)
        return plans

    def compute(self, layers: DenseLayers[V], values: V) -> V:
        """Return the block's maps (n, outputs, h, w)."""
        inner = values
        for part in (*self._widening(), self._depthwise):
            inner = part.compute(layers, inner)
        if self.squeeze:
            inner = self._excited(layers, inner)
        inner = self._narrowing.compute(layers, inner)
        fits = self.window.stride == 1 and self.inputs == self.outputs
        return layers.add(values, inner) if fits else inner

    def _excited(self, layers: DenseLayers[V], values: V) -> V:
        squeezed = layers.convolution(f"{self._gate}.fc1", layers.pixel_mean(values))
        gate = layers.convolution(f"{self._gate}.fc2", layers.relu(squeezed))
        return layers.multiply(values, layers.curve("hard_sigmoid", gate))

    def _widening(self) -> list[NormedConvolution]:
        if self.wide == self.inputs:
            return []
        names = (f"{self._part(0)}.0", f"{self._part(0)}.1")
        return [
            NormedConvolution(
                *names, self.inputs, self.wide, ConvolutionWindow(), self.curve, self.norm
            )
        ]

    @property
    def _place(self) -> int:
        """Number of the depthwise part."""
        return len(self._widening())

    @property
    def _depthwise(self) -> NormedConvolution:
        window = ConvolutionWindow(
            self.window.side, self.window.stride, self.window.dilation, self.wide
        )
        part = self._part(self._place)
        return NormedConvolution(
            f"{part}.0", f"{part}.1", self.wide, self.wide, window, self.curve, self.norm
        )

    @property
    def _gate(self) -> str:
        return self._part(self._place + 1)

    @property
    def _narrowing(self) -> NormedConvolution:
        if self.generation == 3:
            part = self._part(self._place + (2 if self.squeeze else 1))
            names = (f"{part}.0", f"{part}.1")
        else:  # MobileNetV2 leaves the last convolution and its norm in the block's own sequence
            names = (self._part(self._place + 1), self._part(self._place + 2))
        return NormedConvolution(
            *names, self.wide, self.outputs, ConvolutionWindow(), "none", self.norm
        )

    def _part(self, number: int) -> str:
        return f"{self.name}.{'block' if self.generation == 3 else 'conv'}.{number}"
