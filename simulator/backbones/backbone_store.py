"""Networks that are made once for the settings that decide them, and then kept on the disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fleetledger.export.preprocessing_file import load_preprocessing, preprocessing_toml
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import Digest
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.errors import BackboneError

_ONNX = "backbone.onnx"


def kept_backbone(name: str, decides: Mapping[str, Any], make: Callable[[], Backbone]) -> Backbone:
    """Return the backbone that is kept for what `decides` it; make it where there is none.

    Raises `BackboneError` where it cannot be kept.
    """
    folder = cache_folder("backbones") / Digest.of(canonical_json(dict(decides)))
    if not (folder / _ONNX).is_file():
        _keep(make(), folder)
    preprocessing = load_preprocessing((folder / _ONNX).with_suffix(".toml"))
    return Backbone(name, (folder / _ONNX).read_bytes(), preprocessing)


def _keep(backbone: Backbone, folder: Path) -> None:
    """Write both files, or none."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=folder.parent))
        (beside / _ONNX).write_bytes(backbone.data)
        described = (beside / _ONNX).with_suffix(".toml")
        described.write_text(preprocessing_toml(backbone.preprocessing), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except OSError as error:
        raise BackboneError(
            f"{folder}: cannot be written: {error.strerror}; name another folder in "
            "FLEETLEDGER_CACHE"
        ) from error
