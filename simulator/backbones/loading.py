"""From the `[backbone]` of a scenario to a frozen network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fleetledger.export.layers import FeatureChoice, backbone_with_features
from fleetledger.schemas.models import Preprocessing, of_pictures
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.backbones.characters import character_encoder
from fleetledger.simulator.backbones.from_file import file_backbone
from fleetledger.simulator.backbones.from_torchvision import torchvision_backbone
from fleetledger.simulator.backbones.mobilenet import mobilenet_backbone
from fleetledger.simulator.backbones.pixels import pixels_backbone
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.scenario.backbone import BackboneSettings

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
        case "characters":
            return character_encoder(settings.characters, split)
        case "torchvision":
            assert settings.name is not None
            side = None if settings.shape is None else settings.shape[0]
            return torchvision_backbone(settings.name, settings.weights, side)
