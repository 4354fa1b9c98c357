"""A network of torchvision, exported once for its weights and size, and then kept on disk.

`weights` is a file, or torchvision's name for published ones, whose file must be where torch puts
it: nothing is downloaded silently. Without weights they are random, of a fixed seed.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.values import Digest
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.backbones.backbone_store import kept_backbone
from fleetledger.simulator.errors import BackboneError

if TYPE_CHECKING:
    from fleetledger.export.torchvision_network import Recipe

_FILE_ENDINGS = (".pt", ".pth", ".safetensors")


def torchvision_backbone(name: str, weights: str | None, size: int | None) -> Backbone:
    """Return torchvision's network `name` without its classifier, for pictures of `size` pixels.

    Raises `BackboneError` without torch, without the weights, or where the export cannot be kept;
    `NetworkError`, `WeightsError` or `ParityError` where the network cannot be exported.
    """
    file = None if weights is None else weights_file(name, weights)
    kept = kept_backbone(name, _decides(name, file, size), lambda: _export(name, file, size))
    assert isinstance(kept.preprocessing, Preprocessing)  # torchvision's networks look at pictures
    seen = kept.preprocessing.size[0]
    return replace(kept, in_torch=lambda: _module(name, file, seen))


def _decides(name: str, file: Path | None, size: int | None) -> dict[str, Any]:
    """Return everything that decides the exported file."""
    return {
        "name": name,
        "weights": None if file is None else Digest.of(file.read_bytes()),
        "weights_file": None if file is None else file.name,  # it decides the preprocessing
        "size": size,
        "torch": _version("torch"),
        "torchvision": _version("torchvision"),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise _no_torch() from error


def weights_file(name: str, weights: str) -> Path:
    """Return the file of weights that are given by path or by torchvision's name.

    Raises `BackboneError` where there is none, with how to get it.
    """
    path = Path(weights).expanduser()
    if path.suffix not in _FILE_ENDINGS:
        return _published(name, weights)
    if not path.is_file():
        raise BackboneError(
            f"backbone.weights: {path}: there is no such file; give a state dict, torchvision's "
            "name for published weights, or leave weights out for random ones"
        )
    return path


def _published(name: str, weights: str) -> Path:
    """Return the file where torch keeps published weights that were fetched before."""
    models = _torchvision("models")
    try:
        published = models.get_model_weights(name)
    except ValueError as error:
        raise BackboneError(f"backbone.name: {name!r} is no network of torchvision") from error
    if weights not in published.__members__:
        raise BackboneError(
            f"backbone.weights: {weights!r} is neither a file ({', '.join(_FILE_ENDINGS)}) nor "
            f"published for {name}; give one of {', '.join(published.__members__)}"
        )
    import torch  # noqa: PLC0415 - an extra

    url = published[weights].url
    path = Path(torch.hub.get_dir(), "checkpoints", url.rpartition("/")[2])
    if not path.is_file():
        raise BackboneError(
            f"backbone.weights: {weights} of {name} is expected at {path}. To fetch it: python -c "
            f"\"import torch; torch.hub.load_state_dict_from_url('{url}')\""
        )
    return path


def recipe_of(name: str, file: Path | None) -> Recipe:
    """Return how the weights in a file want their pictures; raise `BackboneError` without torch."""
    _torchvision("models")
    from fleetledger.export.torchvision_network import find_recipe  # noqa: PLC0415 - needs torch, an extra

    return find_recipe(name, "" if file is None else file.name)


def _export(name: str, file: Path | None, size: int | None) -> Backbone:
    _torchvision("models")
    from fleetledger.export.torchvision_backbone import (  # noqa: PLC0415 - needs torch, an extra
        TorchvisionRequest,
        export_torchvision,
    )

    exported = export_torchvision(TorchvisionRequest(name, file, size))
    return Backbone(name, exported.model, exported.preprocessing)


def _module(name: str, file: Path | None, size: int) -> Any:  # noqa: ANN401 - of torch
    """Return the network that was exported, as a module of torch."""
    from fleetledger.export.torchvision_network import build_network  # noqa: PLC0415 - needs torch, an extra
    from fleetledger.export.torchvision_weights import load_weights  # noqa: PLC0415

    network = build_network(name, size)
    if file is not None:
        load_weights(network, file)
    return network.module


def _torchvision(module: str) -> Any:  # noqa: ANN401 - a module that may not be installed
    try:
        # torch takes seconds to import, and is an extra
        from fleetledger.export.torchvision_network import torchvision_module  # noqa: PLC0415

        return torchvision_module(module)
    except ImportError as error:
        raise _no_torch() from error


def _no_torch() -> BackboneError:
    return BackboneError(
        "backbone.network: 'torchvision' needs torch and torchvision, which are not installed; "
        f"{pip_install('train')}, or give network = 'file'"
    )
