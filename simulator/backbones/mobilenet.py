"""MobileNetV2 for any size of picture, built here; torch is not needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleetledger.export.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    load_weights,
    random_weights,
)
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.errors import BackboneError

_USUAL_SIDE = 224


def mobilenet_backbone(weights: str | None, size: tuple[int, int] | None) -> Backbone:
    """Return the network for square pictures, with the weights of a safetensors file.

    Without a file they are random, of a fixed seed. Raises `BackboneError` for a file that is not
    there, `WeightsError` for one that does not fit, `NetworkExportError` for too small a size.
    """
    side = _USUAL_SIDE if size is None else size[0]
    return Backbone(
        "mobilenet_v2",
        build_mobilenet_v2(side, random_weights() if weights is None else _read(weights)),
        imagenet_preprocessing(side),
    )


def _read(weights: str) -> dict[str, npt.NDArray[np.float32]]:
    path = Path(weights).expanduser()
    if not path.is_file():
        raise BackboneError(
            f"backbone.weights: {path}: there is no such file; give a safetensors file with the "
            "state dict of torchvision's mobilenet_v2 (docs/datasets.md), or leave weights out for "
            "random ones"
        )
    return load_weights(path)
