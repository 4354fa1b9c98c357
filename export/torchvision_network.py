"""torchvision's classification networks without their classifier: pooled features come out.

Needs torch and torchvision. The preprocessing is torchvision's own evaluation transform, scaled to
the size of the pictures.
"""

from __future__ import annotations

import difflib
import importlib
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import library, nn

from fleetledger.export.errors import NetworkExportError
from fleetledger.schemas.models import MAX_SIDE, Preprocessing

INPUT_NAME = "image"
_CLASSIFIERS = ("classifier", "fc", "heads", "head")
"""Where the networks keep their classifier."""
_INCEPTION = {"transform_input": True, "init_weights": True}
_ARGUMENTS = {"googlenet": _INCEPTION, "inception_v3": _INCEPTION}
"""The published weights of these expect another mean; the network itself converts to it."""
_SETTLING = 4
"""Pictures of noise by which random networks are settled."""
_DETECTION_OPERATORS = ("nms", "qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@dataclass(frozen=True)
class FeatureNetwork:
    """A network in inference mode: images (N, 3, size, size) in, features (N, width) out."""

    name: str
    size: int
    module: nn.Module
    cut: str
    """Name of the part that held the classifier."""


@dataclass(frozen=True)
class Recipe:
    """How the network's published weights want their pictures, at their own size."""

    name: str
    """What torchvision calls these weights."""
    crop: int
    shorter_side: int
    interpolation: str
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def preprocessing(self, size: int) -> Preprocessing:
        """Return the preprocessing at `size` pixels along a side, in the same proportions."""
        return Preprocessing.model_validate(
            {
                "mode": "RGB",
                "size": (size, size),
                "interpolation": self.interpolation,
                "resize": "shorter_side_crop",
                "shorter_side": max(size, size * self.shorter_side // self.crop),
                "mean": self.mean,
                "deviation": self.deviation,
                "input_name": INPUT_NAME,
            }
        )


def find_recipe(name: str, weights_file: str = "") -> Recipe:
    """Return the recipe of the published weights with that file name, else of the first ones.

    Raises `NetworkExportError` if torchvision has no classification network called `name`.
    """
    models = _models_with(name)
    published = list(models.get_model_weights(name))
    named = [entry for entry in published if entry.url.rpartition("/")[2] == weights_file]
    entry = (named or published)[0]
    transform = entry.transforms()
    return Recipe(
        name=entry.name,
        crop=transform.crop_size[0],
        shorter_side=transform.resize_size[0],
        interpolation=transform.interpolation.value,
        mean=tuple(transform.mean),
        deviation=tuple(transform.std),
    )


def build_network(name: str, size: int, seed: int = 0) -> FeatureNetwork:
    """Return the network with random weights from `seed`, its classifier cut off.

    Its normalisations are set so that features stay of a size that can be computed with. Raises
    `NetworkExportError` if torchvision has no classification network of that name, or none for
    pictures of `size` pixels along a side.
    """
    models = _models_with(name)
    if not 1 <= size <= MAX_SIDE:
        raise NetworkExportError(f"size: {size} is not allowed; give 1 to {MAX_SIDE} pixels")
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), sized(name, size):
        warnings.simplefilter("ignore", FutureWarning)  # about other ways to draw the weights
        torch.manual_seed(seed)
        module = models.get_model(name, weights=None, **_arguments(name, size))
        settle_norms(module, size)
    return FeatureNetwork(name, size, module.eval(), _cut_classifier(module))


def settle_norms(module: nn.Module, size: int) -> None:
    """Give every batch normalisation the variance that random weights make of noise.

    Left at 1, a deep residual network doubles its values with every block; ResNet-152 ends above a
    million. Variances are rounded to a power of two each, the same for all channels, so that the
    last bits of another machine change nothing.
    """
    layers = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    if not layers:
        return

    def keep(layer: nn.BatchNorm2d, inputs: tuple[torch.Tensor, ...]) -> None:
        variance = float(inputs[0].var(correction=0))
        layer.get_buffer("running_var").fill_(
            2.0 ** round(math.log2(variance)) if variance else 1.0
        )

    hooks = [layer.register_forward_pre_hook(keep) for layer in layers]  # before each, in order
    with torch.inference_mode():
        module.eval()(torch.randn(_SETTLING, 3, size, size))
    for hook in hooks:
        hook.remove()


@contextmanager
def sized(name: str, size: int) -> Iterator[None]:
    """Turn what torch raises for a size that it cannot take into a `NetworkExportError`."""
    try:
        yield
    except (AssertionError, RuntimeError, ValueError) as error:
        told = str(error).partition("\n")[0]
        raise NetworkExportError(
            f"size: {name} cannot take pictures of {size} pixels ({told}); give its usual "
            f"{find_recipe(name).crop}"
        ) from error


def _models_with(name: str) -> Any:  # noqa: ANN401 - a module that may not be installed
    models = torchvision_module("models")
    names = models.list_models(module=models)
    if name not in names:
        near = difflib.get_close_matches(name, names, 3, 0.5)
        raise NetworkExportError(
            f"torchvision: {name!r} is no classification network of it; give for example "
            f"{', '.join(near or ['mobilenet_v2', 'resnet18', 'vit_b_16'])}"
        )
    return models


def torchvision_module(name: str) -> Any:  # noqa: ANN401 - a module that may not be installed
    """Import `torchvision.<name>`, also where the compiled operators of torchvision do not load.

    Built for CUDA and beside a torch for the CPU, torchvision fails at its import: it describes
    operators that are not there. Only detection uses them, so they are declared without a body.
    """
    try:
        return importlib.import_module(f"torchvision.{name}")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    for operator in _DETECTION_OPERATORS:
        library.define(f"torchvision::{operator}", _SCHEMA)
    return importlib.import_module(f"torchvision.{name}")


def _arguments(name: str, size: int) -> dict[str, Any]:
    if name.startswith("vit_"):
        return {"image_size": size}
    if name.startswith("maxvit_"):
        return {"input_size": (size, size)}
    return dict(_ARGUMENTS.get(name, {}))


def _cut_classifier(module: nn.Module) -> str:
    """Replace the classifier by what of it comes before its first linear layer; return its name."""
    for name in _CLASSIFIERS:
        part = getattr(module, name, None)
        if isinstance(part, nn.Linear):
            setattr(module, name, nn.Identity())
            return name
        if isinstance(part, nn.Sequential):
            setattr(module, name, _before_linear(part))
            return name
    raise NetworkExportError(
        f"torchvision: {type(module).__name__} has no classifier called "
        f"{', '.join(_CLASSIFIERS)}; export it yourself and use import-backbone"
    )


def _before_linear(part: nn.Sequential) -> nn.Module:
    for place, layer in enumerate(part):
        if isinstance(layer, nn.Linear):
            return part[:place]
        if isinstance(layer, nn.Conv2d):  # SqueezeNet classifies every pixel and pools afterwards
            part[place] = nn.Identity()
    return part
