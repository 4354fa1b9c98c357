"""The layers that dense networks need beyond those for whole pictures, and what their bodies are.

Tensors of torchvision's segmentation networks keep their names, so that its files can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol

from fleetledger.learning.networks.body import Layers, V
from fleetledger.learning.networks.plan import TensorPlan

Curve = Literal["none", "relu", "relu6", "hard_swish", "hard_sigmoid", "sigmoid"]
"""Functions of single numbers behind a layer."""


class DenseLayers(Layers[V], Protocol[V]):
    """Layers over maps (n, c, h, w) whose pixels stay apart."""

    def curve(self, kind: Curve, values: V) -> V:
        """Return a function of each number.

        relu6 is min(max(x, 0), 6), hard_sigmoid relu6(x + 3) / 6, hard_swish x times that.
        """
        ...

    def multiply(self, maps: V, factors: V) -> V:
        """Return maps (n, c, h, w) times factors of one shape with them, or (n, c, 1, 1)."""
        ...

    def pixel_mean(self, values: V) -> V:
        """Return the mean over all pixels as a map of one pixel, (n, c, 1, 1)."""
        ...

    def concatenate(self, maps: Sequence[V]) -> V:
        """Return the channels of maps of one size, one after another."""
        ...

    def resize(self, values: V, like: V) -> V:
        """Return maps in the height and width of `like`: bilinear between centres of pixels.

        torch calls this `align_corners=False`; a map of one pixel is repeated.
        """
        ...


@dataclass(frozen=True, eq=False)
class TrunkMaps(Generic[V]):
    """What a trunk makes of pictures."""

    groups: tuple[V, ...]
    """The maps behind each group of blocks, large ones first."""
    low: V
    """Early maps that still know where things are."""

    @property
    def high(self) -> V:
        """Return the last maps, which know best what things are."""
        return self.groups[-1]


@dataclass(frozen=True, eq=False)
class DecoderMaps(Generic[V]):
    """What a decoder makes of a trunk's maps."""

    features: V
    """What the head's rows see, (n, width, h, w)."""
    tap: V
    """The decoder's inner maps that distillation looks at; for ASPP its output."""


@dataclass(frozen=True, eq=False)
class BodyMaps(Generic[V]):
    """What a body makes of pictures."""

    features: V
    """What the head's rows see, (n, width, h, w)."""
    taps: tuple[V, ...]
    """The maps behind each of the trunk's groups, then the decoder's."""


class Trunk(Protocol):
    """From pictures to maps of falling size. Equal trunks are equal values."""

    @property
    def low_width(self) -> int:
        """Channels of the early maps."""
        ...

    @property
    def high_width(self) -> int:
        """Channels of the last maps."""
        ...

    @property
    def strides(self) -> tuple[int, int]:
        """Pixels of a picture from one pixel to the next in the early and in the last maps."""
        ...

    def plan(self) -> Sequence[TensorPlan]:
        """Return the trunk's tensors."""
        ...

    def maps(self, layers: DenseLayers[V], pictures: V) -> TrunkMaps[V]:
        """Return the maps of pictures (n, channels, h, w)."""
        ...


class Decoder(Protocol):
    """From a trunk's maps to features of pixels. Equal decoders are equal values."""

    @property
    def width(self) -> int:
        """Channels of the features."""
        ...

    @property
    def keeps_low(self) -> bool:
        """Whether features are as large as the early maps; else they are as the last."""
        ...

    def plan(self) -> Sequence[TensorPlan]:
        """Return the decoder's tensors."""
        ...

    def features(self, layers: DenseLayers[V], maps: TrunkMaps[V]) -> DecoderMaps[V]:
        """Return features of pixels (n, width, h, w)."""
        ...


@dataclass(frozen=True)
class DenseBody:
    """A trunk with a decoder behind it."""

    trunk: Trunk
    decoder: Decoder

    @property
    def width(self) -> int:
        """Number of features of a pixel."""
        return self.decoder.width

    @property
    def stride(self) -> int:
        """Pixels of a picture from one pixel of the features to the next."""
        return self.trunk.strides[0 if self.decoder.keeps_low else 1]

    def plan(self) -> Sequence[TensorPlan]:
        """Return the tensors of trunk and decoder."""
        return (*self.trunk.plan(), *self.decoder.plan())

    def base_plan(self) -> Sequence[TensorPlan]:
        """Return no tensor: all of them are trained."""
        return ()

    def maps(self, layers: DenseLayers[V], pictures: V) -> BodyMaps[V]:
        """Return features and taps of pictures (n, channels, h, w)."""
        return self.decoded(layers, self.trunk.maps(layers, pictures))

    def decoded(self, layers: DenseLayers[V], maps: TrunkMaps[V]) -> BodyMaps[V]:
        """Return features and taps of what the trunk made."""
        decoded = self.decoder.features(layers, maps)
        return BodyMaps(decoded.features, (*maps.groups, decoded.tap))
