"""Networks by name, as settings and scenarios give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.body import Body
from fleetledger.learning.networks.convnet import ConvNet
from fleetledger.learning.networks.feature_adjustment import FeatureAdjustment
from fleetledger.learning.networks.fixed_features import FixedProjection, IdentityBody
from fleetledger.learning.networks.head import HeadKind
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network, Shape
from fleetledger.learning.networks.residual_adapter import ResidualAdapter
from fleetledger.learning.networks.resnet import ResNet
from fleetledger.learning.networks.vision_transformer import VisionTransformer


def _mlp(shape: Shape) -> Body:
    return Mlp(inputs=prod(shape), axes=len(shape))


def _convnet(shape: Shape) -> Body:
    return ConvNet(_picture(shape)[0])


def _resnet18(shape: Shape) -> Body:
    return ResNet(_picture(shape)[0])


def _resnet32(shape: Shape) -> Body:
    return ResNet(_picture(shape)[0], (16, 32, 64), (5, 5, 5))


def _resnet20(shape: Shape) -> Body:
    return ResNet(_picture(shape)[0], (16, 32, 64), (3, 3, 3))


def _resnet8(shape: Shape) -> Body:
    return ResNet(_picture(shape)[0], (16, 32, 64), (1, 1, 1))


def _resnet18_signed(shape: Shape) -> Body:
    return ResNet(_picture(shape)[0], signed=True)


def _resnet32_signed(shape: Shape) -> Body:
    return ResNet(_picture(shape)[0], (16, 32, 64), (5, 5, 5), signed=True)


def _resnet20_signed(shape: Shape) -> Body:
    return ResNet(_picture(shape)[0], (16, 32, 64), (3, 3, 3), signed=True)


def _resnet8_signed(shape: Shape) -> Body:
    return ResNet(_picture(shape)[0], (16, 32, 64), (1, 1, 1), signed=True)


def _vit_b_16(shape: Shape) -> Body:
    channels, height, width = _picture(shape)
    if channels != 3 or height != width or height % 16:
        raise NetworkError(f"inputs: {shape} does not suit vit_b_16; give 3 channels, 16 k squared")
    return VisionTransformer(side=height)


def _fam(shape: Shape) -> Body:
    return FeatureAdjustment(_features(shape))


def _fixed_projection(shape: Shape) -> Body:
    return FixedProjection(_features(shape))


def _residual_adapter(shape: Shape) -> Body:
    return ResidualAdapter(_features(shape))


def _identity(shape: Shape) -> Body:
    return IdentityBody(_features(shape))


BODIES: Mapping[str, Callable[[Shape], Body]] = {
    "mlp": _mlp,
    "convnet": _convnet,
    "resnet8": _resnet8,
    "resnet18": _resnet18,
    "resnet20": _resnet20,
    "resnet32": _resnet32,
    "resnet8_signed": _resnet8_signed,
    "resnet18_signed": _resnet18_signed,
    "resnet20_signed": _resnet20_signed,
    "resnet32_signed": _resnet32_signed,
    "vit_b_16": _vit_b_16,
    "fam": _fam,
    "fixed_projection": _fixed_projection,
    "identity": _identity,
    "residual_adapter": _residual_adapter,
}
"""Bodies by name; each is made for one shape of inputs, such as (features,) or (c, h, w)."""

OF_FEATURES = ("fam", "fixed_projection", "identity", "residual_adapter")
"""Those that take a frozen backbone's features and nothing else."""


def build_network(name: str, shape: Shape, head: HeadKind = "linear") -> Network:
    """Return the network of that name for inputs of `shape`.

    Raises `NetworkError` for a name that is none, and for inputs that it cannot take.
    """
    if name not in BODIES:
        raise NetworkError(f"network: {name!r} is unknown; the networks are {', '.join(BODIES)}")
    return Network(BODIES[name](shape), head)


def _picture(shape: Shape) -> Shape:
    if len(shape) != 3:
        raise NetworkError(f"inputs: {shape} are no pictures; give (channels, height, width)")
    return shape


def _features(shape: Shape) -> int:
    if len(shape) != 1:
        raise NetworkError(f"inputs: {shape} are no features; give (numbers,)")
    return shape[0]
