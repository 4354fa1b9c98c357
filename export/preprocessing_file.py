"""Reads and writes the description of a backbone's input that comes beside its ONNX file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import TypeAdapter, ValidationError

from export.errors import PreprocessingFileError
from schemas.canonical import parse_json
from schemas.errors import SchemaError
from schemas.message import explain
from schemas.models import AnyPreprocessing

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_BYTES = 64 * 1024
_EITHER: TypeAdapter[AnyPreprocessing] = TypeAdapter(AnyPreprocessing)


def load_preprocessing(path: Path) -> AnyPreprocessing:
    """Read a TOML or JSON file, told apart by its ending.

    Raises `PreprocessingFileError` naming file, field, value and way out.
    """
    try:
        return _EITHER.validate_python(_parse(path, _read(path)))
    except ValidationError as error:
        raise PreprocessingFileError(
            f"{path}: {explain(error)}; docs/models.md lists the fields"
        ) from error


def preprocessing_toml(preprocessing: AnyPreprocessing) -> str:
    """Return the text of a TOML file that `load_preprocessing` reads back as an equal object."""
    return tomli_w.dumps(preprocessing.model_dump(mode="json", exclude_none=True))


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PreprocessingFileError(
            f"{path}: cannot be read: {error.strerror}; give a TOML or JSON file"
        ) from error
    if len(data) > _MAX_BYTES:
        raise PreprocessingFileError(
            f"{path}: {len(data)} bytes exceed {_MAX_BYTES}; give the description, not the model"
        )
    return data


def _parse(path: Path, data: bytes) -> Any:  # noqa: ANN401 - any JSON or TOML value
    try:
        if path.suffix == ".json":
            return parse_json(data)
        if path.suffix == ".toml":
            return tomllib.loads(data.decode("utf-8"))
    except (SchemaError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PreprocessingFileError(f"{path}: {error}; mend that line") from error
    raise PreprocessingFileError(
        f"{path}: the ending {path.suffix!r} is not known; name it .toml or .json"
    )
