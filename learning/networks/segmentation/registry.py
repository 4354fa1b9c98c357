"""Dense networks by name, as settings and scenarios give them.

    small_dense                    for scenes of digits, on a CPU
    lraspp_mobilenet_v2            MobileNetV2 with LR-ASPP
    lraspp_mobilenet_v3_large      torchvision's
    deeplabv3_mobilenet_v3_large   torchvision's
    deeplabv3_resnet101            torchvision's, stride 8
    deeplabv3_resnet101_stride16   the same tensors at half the dilation, as FBL's program trains

Tensors of torchvision's networks have its names, those of the head excepted; `weights` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.network import Shape
from fleetledger.learning.networks.segmentation.aspp import Aspp
from fleetledger.learning.networks.segmentation.layers import DenseBody
from fleetledger.learning.networks.segmentation.lraspp import LiteAspp
from fleetledger.learning.networks.segmentation.mobilenets import mobilenet_v2, mobilenet_v3_large
from fleetledger.learning.networks.segmentation.network import FrozenNorm, SegmentationNetwork
from fleetledger.learning.networks.segmentation.residual import ResidualTrunk
from fleetledger.learning.networks.segmentation.small import Merge, SmallTrunk

_LEAST_SIDE = 8
"""Pixels of a picture's side; smaller ones leave nothing to tell apart."""


def _small(channels: int) -> DenseBody:
    trunk = SmallTrunk(channels)
    return DenseBody(trunk, Merge(*trunk.widths))


def _mobilenet_v2(channels: int) -> DenseBody:
    _require_colour("lraspp_mobilenet_v2", channels)
    trunk = mobilenet_v2()
    return DenseBody(trunk, LiteAspp(trunk.low_width, trunk.high_width))


def _mobilenet_v3(channels: int) -> DenseBody:
    _require_colour("lraspp_mobilenet_v3_large", channels)
    trunk = mobilenet_v3_large()
    return DenseBody(trunk, LiteAspp(trunk.low_width, trunk.high_width))


def _deeplab_mobilenet_v3(channels: int) -> DenseBody:
    _require_colour("deeplabv3_mobilenet_v3_large", channels)
    trunk = mobilenet_v3_large()
    return DenseBody(trunk, Aspp(trunk.high_width))


def _deeplab_resnet101(channels: int) -> DenseBody:
    trunk = ResidualTrunk((3, 4, 23, 3), (False, True, True), channels=channels)
    return DenseBody(trunk, Aspp(trunk.high_width))


def _deeplab_resnet101_stride16(channels: int) -> DenseBody:
    trunk = ResidualTrunk((3, 4, 23, 3), (False, False, True), channels=channels)
    return DenseBody(trunk, Aspp(trunk.high_width, rates=(6, 12, 18)))


DENSE_BODIES: Mapping[str, Callable[[int], DenseBody]] = {
    "small_dense": _small,
    "lraspp_mobilenet_v2": _mobilenet_v2,
    "lraspp_mobilenet_v3_large": _mobilenet_v3,
    "deeplabv3_mobilenet_v3_large": _deeplab_mobilenet_v3,
    "deeplabv3_resnet101": _deeplab_resnet101,
    "deeplabv3_resnet101_stride16": _deeplab_resnet101_stride16,
}
"""Bodies by name; each is made for pictures of so many channels, of any size."""


def build_segmentation(
    name: str, shape: Shape, frozen_norm: FrozenNorm = "none"
) -> SegmentationNetwork:
    """Return the network of that name for pictures of `shape` (channels, height, width).

    Raises `NetworkError` for a name that is none, and for pictures that it cannot take.
    """
    if name not in DENSE_BODIES:
        known = ", ".join(DENSE_BODIES)
        raise NetworkError(f"network: {name!r} gives pixels no class; give one of {known}")
    if len(shape) != 3 or min(shape[1:]) < _LEAST_SIDE:
        raise NetworkError(
            f"inputs: {shape} does not suit {name}; give (channels, height, width) with sides of "
            f"{_LEAST_SIDE} or more"
        )
    return SegmentationNetwork(DENSE_BODIES[name](shape[0]), frozen_norm)


def _require_colour(name: str, channels: int) -> None:
    if channels != 3:
        raise NetworkError(f"inputs: channels {channels} for {name}; give 3")
