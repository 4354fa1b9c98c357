"""A frozen network of your own: an ONNX file, its preprocessing beside it under the same name."""

from __future__ import annotations

from pathlib import Path

from fleetledger.export.errors import ModelFileError
from fleetledger.export.model_file import read_model_file
from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.errors import BackboneError


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
    takes = "texts" if preprocessing.mode == "text" else f"pictures of {preprocessing.size}"
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
