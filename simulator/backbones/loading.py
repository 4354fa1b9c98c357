"""From the `[backbone]` of a scenario to a frozen network."""

from __future__ import annotations

from pathlib import Path

from simulator.backbones.backbone import Backbone
from simulator.backbones.characters import character_encoder
from simulator.backbones.from_file import file_backbone
from simulator.backbones.from_torchvision import torchvision_backbone
from simulator.backbones.pixels import pixels_backbone
from simulator.datasets.images import Split
from simulator.scenario.backbone import BackboneSettings

__all__ = ["Backbone", "load_backbone"]


def load_backbone(settings: BackboneSettings, split: Split) -> Backbone:
    """Return the network that `settings` name.

    `pixels` is made to fit the pictures of `split`, `characters` learns from its public text.

    Raises `BackboneError`, or an `ExportError` where a file or network does not do, naming the
    setting and the way out.
    """
    match settings.network:
        case "pixels":
            return pixels_backbone(split, settings.shape)
        case "file":
            assert settings.file is not None
            return file_backbone(Path(settings.file).expanduser(), settings.shape)
        case "characters":
            return character_encoder(settings.characters, split)
        case "torchvision":
            assert settings.name is not None
            side = None if settings.shape is None else settings.shape[0]
            return torchvision_backbone(settings.name, settings.weights, side)
