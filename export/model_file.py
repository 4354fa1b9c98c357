"""Reads the operator's ONNX file, with the weights that an exporter put into files beside it."""

from __future__ import annotations

import stat
from pathlib import Path, PurePosixPath, PureWindowsPath

from fleetledger.export.errors import ModelFileError
from fleetledger.learning.errors import GraphFileError
from fleetledger.learning.onnx_files.external_weights import BytesBeside, parts_beside, with_parts
from fleetledger.learning.onnx_files.file_rules import MAX_MODEL_BYTES
from fleetledger.runtime.regular_files import open_regular, regular_status

_ONE_FILE = (
    "copy it there, or save the model as one file: torch.onnx.export(..., external_data=False), "
    "or onnx.save(onnx.load(FILE), ONE_FILE)"
)


def read_model_file(file: Path) -> bytes:
    """Return the bytes of a model as one file; sizes are looked at before anything is read.

    Weights beside it are read from regular files of the same folder alone. What the bytes hold is
    for the rules of `learning.onnx_files`. Raises `ModelFileError`.
    """
    data = read_bounded(file, "an ONNX file")
    try:
        parts = parts_beside(data)
    except GraphFileError:
        return data  # whoever holds it to the rules tells what it is
    if not parts:
        return data
    sizes = {name: _size_beside(file, name) for name in dict.fromkeys(p.file for p in parts)}
    total = len(data)
    for part in parts:
        begin, size = part.begin, _length(part, sizes[part.file])
        if begin + size > sizes[part.file]:
            raise ModelFileError(
                f"{file.with_name(part.file)}: has {sizes[part.file]} bytes, and {file.name} reads "
                f"{size} from byte {begin} on; it is of another export, or was not copied whole"
            )
        total += size
    if total > MAX_MODEL_BYTES:
        raise ModelFileError(
            f"{file}: {total} bytes with the weights beside it exceed {MAX_MODEL_BYTES}; export a "
            "smaller network"
        )
    return with_parts(data, lambda part: _read_part(file, part, sizes[part.file]))


def read_bounded(file: Path, what: str) -> bytes:
    """Return the bytes of a file, whose size is looked at before.

    `what` says what to give instead. Raises `ModelFileError` where it cannot be read or is too
    large.
    """
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError(f"{file}: no regular file; give {what}")
        if found.st_size > MAX_MODEL_BYTES:
            raise ModelFileError(
                f"{file}: {found.st_size} bytes exceed {MAX_MODEL_BYTES}; export a smaller network"
            )
        return file.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{file}: cannot be read: {error.strerror}; give {what}") from error


def _size_beside(file: Path, name: str) -> int:
    """Return the size of a file with weights; raise `ModelFileError` unless it lies beside."""
    plain = PurePosixPath(name).name == name == PureWindowsPath(name).name
    if not plain or name in ("", ".", "..") or "\0" in name:
        raise ModelFileError(
            f"{file}: its weights lie in {name!r}, and are read from its own folder alone; save "
            "the model as one file: onnx.save(onnx.load(FILE), ONE_FILE)"
        )
    beside = file.with_name(name)
    try:
        if beside.is_symlink():
            raise ModelFileError(
                f"{beside}: a link, and weights are read from files alone; copy both files into "
                f"one folder: cp -L {file.name} {name} FOLDER"
            )
        return regular_status(beside).st_size
    except FileNotFoundError as error:
        raise ModelFileError(
            f"{beside}: is not there, and {file.name} has its weights in it; {_ONE_FILE}"
        ) from error
    except OSError as error:
        raise ModelFileError(
            f"{beside}: cannot be read: {error.strerror}; {file.name} has its weights in it: "
            f"{_ONE_FILE}"
        ) from error


def _length(part: BytesBeside, file_size: int) -> int:
    return max(file_size - part.begin, 0) if part.size is None else part.size


def _read_part(file: Path, part: BytesBeside, file_size: int) -> bytes:
    beside = file.with_name(part.file)
    try:
        with open_regular(beside) as opened:
            opened.seek(part.begin)
            return opened.read(_length(part, file_size))
    except OSError as error:
        raise ModelFileError(f"{beside}: cannot be read: {error.strerror}; {_ONE_FILE}") from error
