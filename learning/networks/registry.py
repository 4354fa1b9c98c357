"""Networks by name, as settings and scenarios give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.body import Body
from fleetledger.learning.networks.convnet import ConvNet
from fleetledger.learning.networks.feature_adjustment import FeatureAdjustment
from fleetledger.learning.networks.fixed_features import FixedProjection, IdentityBody
from fleetledger.learning.networks.head import HeadKind
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.module_body import ModuleBody
from fleetledger.learning.networks.module_source import Factory, Options
from fleetledger.learning.networks.network import Network, Shape
from fleetledger.learning.networks.residual_adapter import ResidualAdapter
from fleetledger.learning.networks.resnet import ResNet
from fleetledger.learning.networks.vision_transformer import VisionTransformer
from fleetledger.runtime.errors import shorten
from fleetledger.runtime.registry import Registry, RegistryError


@dataclass(frozen=True)
class KnownNetwork:
    """A network of the package's layers by the name that settings and scenarios give it."""

    body: Callable[[Shape], Body]
    """Makes it for one shape of inputs, such as (features,) or (c, h, w); raises `NetworkError`."""
    of_features: bool = False
    """Whether it takes a frozen backbone's features and nothing else."""
    base: str | None = None
    """Torchvision's network whose tensors nobody trains in it; None: all of it is trained."""


def _of_pictures(body: Callable[[int], Body]) -> KnownNetwork:
    """Return a network of pictures; `body` takes their channels."""
    return KnownNetwork(lambda shape: body(_picture(shape)[0]))


def _narrow(stages: tuple[int, ...], *, signed: bool = False) -> KnownNetwork:
    """Return a residual network of the paper's widths for CIFAR."""
    return _of_pictures(lambda channels: ResNet(channels, (16, 32, 64), stages, signed=signed))


def _of_features(body: Callable[[int], Body]) -> KnownNetwork:
    """Return a network of features; `body` takes their number."""
    return KnownNetwork(lambda shape: body(_features(shape)), of_features=True)


def _vit_b_16(shape: Shape, lora: int = 0) -> Body:
    channels, height, width = _picture(shape)
    if channels != 3 or height != width or height % 16:
        raise NetworkError(f"inputs: {shape} does not suit vit_b_16; give 3 channels, 16 k squared")
    return VisionTransformer(side=height, lora=lora)


def _taken(name: str, value: object) -> KnownNetwork | Factory:
    """Return what a distribution or a program registers as a network."""
    if isinstance(value, KnownNetwork):
        return value
    if callable(value):
        return value
    raise RegistryError(
        f"network: {name!r} is {shorten(value)}; give a function (shape, **options) of a "
        "torch.nn.Module that makes a row of features of each sample"
    )


_OWN: dict[str, KnownNetwork] = {
    "mlp": KnownNetwork(lambda shape: Mlp(inputs=prod(shape), axes=len(shape))),
    "convnet": _of_pictures(ConvNet),
    "resnet8": _narrow((1, 1, 1)),
    "resnet18": _of_pictures(ResNet),
    "resnet20": _narrow((3, 3, 3)),
    "resnet32": _narrow((5, 5, 5)),
    "resnet8_signed": _narrow((1, 1, 1), signed=True),
    "resnet18_signed": _of_pictures(lambda channels: ResNet(channels, signed=True)),
    "resnet20_signed": _narrow((3, 3, 3), signed=True),
    "resnet32_signed": _narrow((5, 5, 5), signed=True),
    "vit_b_16": KnownNetwork(_vit_b_16, base="vit_b_16"),
    "vit_b_16_lora": KnownNetwork(lambda shape: _vit_b_16(shape, lora=4), base="vit_b_16"),
    "fam": _of_features(FeatureAdjustment),
    "fixed_projection": _of_features(FixedProjection),
    "identity": _of_features(IdentityBody),
    "residual_adapter": _of_features(ResidualAdapter),
}
NETWORKS = Registry[KnownNetwork | Factory]("network", "fleetledger.networks", _taken).own(_OWN)
"""By name; settings may name a network once it is here.

A value is a network of the package's layers, or a factory `(shape, **options)` of a torch module
that makes features, which a head stands on as on any other.
"""


def build_network(
    name: str, shape: Shape, head: HeadKind = "linear", options: Options = ()
) -> Network:
    """Return the network of that name for inputs of `shape`; `options` are for its factory.

    Raises `NetworkError` for a name that is none, for inputs that it cannot take, and for options
    where there is no factory. A factory is called when somebody asks for tensors, and fails then.
    """
    if name not in NETWORKS:
        raise NetworkError(f"network: {name!r} is unknown; the networks are {', '.join(NETWORKS)}")
    known = NETWORKS[name]
    if not isinstance(known, KnownNetwork):
        return Network(ModuleBody(name, known, tuple(shape), options), head)
    if options:
        raise NetworkError(
            f"network_options: {name!r} is a network of the package and takes none; leave "
            f"{options[0][0]!r} out, or register a factory of your own"
        )
    return Network(known.body(shape), head)


def base_of(name: str) -> str | None:
    """Return torchvision's network that nobody trains in the one of that name; None: none such."""
    known = NETWORKS.get(name)
    return known.base if isinstance(known, KnownNetwork) else None


def _picture(shape: Shape) -> Shape:
    if len(shape) != 3:
        raise NetworkError(f"inputs: {shape} are no pictures; give (channels, height, width)")
    return shape


def _features(shape: Shape) -> int:
    if len(shape) != 1:
        raise NetworkError(f"inputs: {shape} are no features; give (numbers,)")
    return shape[0]
