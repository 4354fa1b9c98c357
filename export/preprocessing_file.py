"""Reads and writes the description of a backbone's input that comes beside its ONNX file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import TypeAdapter, ValidationError

from fleetledger.export.errors import PreprocessingFileError
from fleetledger.runtime.errors import SchemaError, cut
from fleetledger.runtime.user_text import decode_text
from fleetledger.schemas.canonical import parse_json
from fleetledger.schemas.message import explain
from fleetledger.schemas.models import AnyPreprocessing, Preprocessing

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_BYTES = 64 * 1024
_MOST_OF_ONE = 2.0
"""Largest mean or deviation of values from 0 to 1 that somebody means."""
_EITHER: TypeAdapter[AnyPreprocessing] = TypeAdapter(AnyPreprocessing)


def load_preprocessing(path: Path) -> AnyPreprocessing:
    """Read a TOML or JSON file, told apart by its ending.

    Raises `PreprocessingFileError` naming file, field, value and way out.
    """
    given = _parse(path, _read(path))
    if not isinstance(given, dict):
        raise PreprocessingFileError(
            f"{path}: holds {cut(repr(given), 60)}, no fields with their values; docs/models.md "
            "lists them"
        )
    try:
        return _EITHER.validate_python(given)
    except ValidationError as error:
        raise PreprocessingFileError(
            f"{path}: {explain(error)}; docs/models.md lists the fields"
        ) from error


def preprocessing_toml(preprocessing: AnyPreprocessing) -> str:
    """Return the text of a TOML file that `load_preprocessing` reads back as an equal object."""
    return tomli_w.dumps(preprocessing.model_dump(mode="json", exclude_none=True))


def remarks_on_units(preprocessing: AnyPreprocessing) -> Iterator[str]:
    """Yield a sentence where mean or deviation are in another unit than the divided values."""
    if not isinstance(preprocessing, Preprocessing):
        return
    top = 1 if preprocessing.divide_by == 255 else 255
    mean, deviation = preprocessing.mean, preprocessing.deviation
    if top == 1:
        wrong = max(mean) > _MOST_OF_ONE or max(deviation) > _MOST_OF_ONE
    else:
        wrong = any(0 < number <= 1 for number in mean) or min(deviation) < 1
    if not wrong:
        return
    pictures = [(level - m) / d for m, d in zip(mean, deviation, strict=True) for level in (0, top)]
    other = 1 if top == 1 else 255
    yield (
        f"mean {_numbers(mean)} and deviation {_numbers(deviation)} look as if they were "
        f"meant for values of 0 to {256 - top}, but divide_by = {preprocessing.divide_by} makes "
        f"them 0 to {top}: the network gets {min(pictures):.3g} to {max(pictures):.3g}. Say "
        f"divide_by = {other}, or give them in the other unit"
    )


def _numbers(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:g}" for value in values) + "]"


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
            return parse_json(decode_text(data).encode("utf-8"))
        if path.suffix == ".toml":
            return tomllib.loads(decode_text(data))
    except (SchemaError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PreprocessingFileError(f"{path}: {error}; mend that line") from error
    raise PreprocessingFileError(
        f"{path}: the ending {path.suffix!r} is not known; name it .toml or .json"
    )
