"""From the `[backbone]` of a scenario to a frozen network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleetledger.export import mobilenet_v2
from fleetledger.export.errors import ModelFileError
from fleetledger.export.input_kinds import input_kind
from fleetledger.export.layers import FeatureChoice, backbone_with_features
from fleetledger.export.model_file import read_model_file
from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.schemas.models import Preprocessing, of_pictures
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.backbones.characters import character_encoder
from fleetledger.simulator.backbones.from_torchvision import torchvision_backbone
from fleetledger.simulator.backbones.pixels import pixels_backbone
from fleetledger.simulator.backbones.rocket import rocket_backbone
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.scenario.backbone import BackboneSettings

_USUAL_SIDE = 224


__all__ = ["Backbone", "centred", "load_backbone"]

_HALF = 0.5
"""Mean and deviation of colours from 0 to 1 that are to be from -1 to 1."""


def load_backbone(settings: BackboneSettings, split: Split) -> Backbone:
    """Return the network that `settings` name.

    `pixels` is made to fit the pictures of `split`, `characters` learns from its public text.

    Raises `BackboneError`, or an `ExportError` where a file or network does not do, naming the
    setting and the way out.
    """
    choice = FeatureChoice(settings.layers, settings.mirror)
    whole = _with_features(_whole(settings, split), choice)
    if not settings.centred:
        return whole
    return replace(whole, preprocessing=centred(settings, of_pictures(whole.preprocessing)))


def centred(settings: BackboneSettings, sight: Preprocessing) -> Preprocessing:
    """Return the preprocessing with colours from -1 to 1, where the settings ask for that."""
    if not settings.centred:
        return sight
    half = (_HALF,) * sight.channels
    return sight.model_copy(update={"mean": half, "deviation": half})


def _with_features(backbone: Backbone, choice: FeatureChoice) -> Backbone:
    """Return the backbone with other layers and views, which torch's module has not."""
    if not choice:
        return backbone
    data = backbone_with_features(backbone.data, backbone.preprocessing, choice)
    return replace(backbone, data=data, in_torch=None)


def _whole(settings: BackboneSettings, split: Split) -> Backbone:
    match settings.network:
        case "pixels":
            return pixels_backbone(split, settings.shape)
        case "file":
            assert settings.file is not None
            return file_backbone(Path(settings.file).expanduser(), settings.shape)
        case "mobilenet-v2":
            return mobilenet_backbone(settings.weights, settings.shape)
        case "rocket":
            return rocket_backbone(split)
        case "characters":
            return character_encoder(settings.characters, split)
        case "torchvision":
            assert settings.name is not None
            side = None if settings.shape is None else settings.shape[0]
            return torchvision_backbone(settings.name, settings.weights, side)


def file_backbone(path: Path, size: tuple[int, int] | None) -> Backbone:
    """Read `path` and the `.json` or `.toml` file of the same name.

    Raises `BackboneError` for a file that is missing or a `size` that the file has not, and
    `PreprocessingFileError` for a description that cannot be read.
    """
    try:
        data = read_model_file(path)
    except ModelFileError as error:
        raise BackboneError(
            f"backbone.file: {error}, for example of `fleetledger model export-backbone "
            "--torchvision NAME --weights FILE` (docs/models.md)"
        ) from error
    preprocessing = load_preprocessing(_beside(path))
    takes = input_kind(preprocessing).nouns
    if isinstance(preprocessing, Preprocessing):
        takes = f"pictures of {preprocessing.size}"
    if size is not None and takes != f"pictures of {size}":
        raise BackboneError(
            f"backbone.size: {size[0]}, but {path.name} takes {takes}; leave size out, or make the "
            "file again for that size"
        )
    return Backbone(path.stem, data, preprocessing)


def _beside(path: Path) -> Path:
    for ending in (".json", ".toml"):
        beside = path.with_suffix(ending)
        if beside.is_file():
            return beside
    raise BackboneError(
        f"backbone.file: {path}: no preprocessing beside it; put {path.stem}.json or "
        f"{path.stem}.toml there (docs/models.md lists the fields)"
    )


def mobilenet_backbone(weights: str | None, size: tuple[int, int] | None) -> Backbone:
    """Return the network for square pictures, with the weights of a safetensors file.

    Without a file they are random, of a fixed seed. Raises `BackboneError` for a file that is not
    there, `WeightsError` for one that does not fit, `NetworkExportError` for too small a size.
    """
    side = _USUAL_SIDE if size is None else size[0]
    return Backbone(
        "mobilenet_v2",
        mobilenet_v2.build_mobilenet_v2(
            side, mobilenet_v2.random_weights() if weights is None else _read(weights)
        ),
        mobilenet_v2.imagenet_preprocessing(side),
    )


def _read(weights: str) -> dict[str, npt.NDArray[np.float32]]:
    path = Path(weights).expanduser()
    if not path.is_file():
        raise BackboneError(
            f"backbone.weights: {path}: there is no such file; give a safetensors file with the "
            "state dict of torchvision's mobilenet_v2 (docs/datasets.md), or leave weights out for "
            "random ones"
        )
    return mobilenet_v2.load_weights(path)
