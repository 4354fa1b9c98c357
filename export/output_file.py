"""Writes an ONNX file with a text beside it that describes it."""

from __future__ import annotations

from pathlib import Path

from fleetledger.export.errors import OutputFileError
from fleetledger.runtime.whole_file import write_whole


def check_place(path: Path) -> None:
    """Raise `OutputFileError` unless `path` can name an ONNX file, before minutes are spent."""
    if path.suffix != ".onnx":
        raise OutputFileError(
            f"{path}: the ending {path.suffix!r} is not that of an ONNX file; use .onnx"
        )
    if not path.parent.is_dir():
        raise OutputFileError(f"{path}: there is no folder {path.parent}; make it first")


def write_described(path: Path, model: bytes, beside: Path, text: str) -> None:
    """Write a model and its description, replacing what is there; raise `OutputFileError`."""
    try:
        write_whole(path, model)
        write_whole(beside, text)
    except OSError as error:
        raise OutputFileError(
            f"{error.filename}: cannot be written: {error.strerror}; choose another place"
        ) from error
