"""Arrays of numbers in files: `.npy`, `.npz` and Parquet, and one sample as the model's input.

The content of a sample is one canonical `.npy` file of float32 in C order, however it was stored:
alone in a file, as a row of one, as float64 or in Parquet. Its digest is that of these bytes, the
same on every device. Nothing is unpickled.
"""

from __future__ import annotations

import ast
import io
import zipfile
import zlib
from math import prod
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import ArrayError
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.pip_command import pip_install

NPY, NPZ, PARQUET = ".npy", ".npz", ".parquet"
ENDINGS = frozenset({NPY, NPZ, PARQUET})
"""Of files that `read_array` reads, in small letters."""
MAX_UNPACKED = 256 << 20
"""Bytes of a file's array in memory."""
_MOST_OF_A_HEADER = 1 << 16
_MOST_AXES = 16
_MAGIC = b"\x93NUMPY"
_NUMBERS = "fiub"
"""Kinds of NumPy types that become float32: floats, integers, booleans."""
_ONE = "x"
"""Name of the array that counts in an `.npz`, or the column in Parquet, where there are more."""

Floats = npt.NDArray[np.float32]
AnyArray = npt.NDArray[Any]


class ArraySpec(Protocol):
    """What `array_input` needs to know; `schemas.arrays.ArrayPreprocessing` fits."""

    @property
    def mode(self) -> Literal["array"]:
        """Tells it from the preprocessing of pictures and texts."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    @property
    def mean(self) -> tuple[float, ...]:
        """Subtracted; one number, or one per entry of the first axis."""

    @property
    def deviation(self) -> tuple[float, ...]:
        """Divides the difference; one number, or one per entry of the first axis."""


def read_array(data: bytes, ending: str) -> AnyArray:
    """Return the array of a file with that ending: numbers of any type, as they were written.

    Parquet gives (rows, ...), a row per sample. Raises `ArrayError` for a file that is damaged,
    holds anything but plain numbers, or unpacks to more than `MAX_UNPACKED` bytes.
    """
    readers = {NPY: _of_npy, NPZ: _of_npz, PARQUET: _of_parquet}
    return readers[ending](data)


def array_content(values: AnyArray) -> bytes:
    """Return the canonical content of one sample; NumPy reads it as an `.npy` file."""
    floats = _as_floats(values)
    shape = "".join(f"{length}, " for length in floats.shape)
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape.rstrip(' ')}), }}"
    start = len(_MAGIC) + 4
    padded = header.ljust(-(start + len(header) + 1) % 64 + len(header)) + "\n"
    begin = _MAGIC + b"\x01\x00" + len(padded).to_bytes(2, "little")
    return begin + padded.encode("ascii") + floats.tobytes()


def array_input(sample: bytes | AnyArray, spec: ArraySpec) -> Floats:
    """Return one sample, from an `.npy` file's content or an array, as the model takes it.

    Numbers in a row are brought to the shape where they are as many. Raises `ArrayError` for
    another shape, NaN and infinity.
    """
    values = _of_npy(sample) if isinstance(sample, bytes) else sample
    if values.shape != spec.shape:
        if values.shape != (prod(spec.shape),):
            raise ArrayError(f"array: shape {list(values.shape)}; {_way_out(values.shape, spec)}")
        values = values.reshape(spec.shape)
    floats = _as_floats(values)
    faults = np.argwhere(~np.isfinite(floats))
    if len(faults):
        raise ArrayError(
            f"array: {floats[tuple(faults[0])]} at {faults[0].tolist()} as float32; leave such "
            "samples out, or fill the gaps"
        )
    over = (-1, *(1,) * (len(spec.shape) - 1))
    mean, deviation = (
        np.asarray(numbers, np.float32).reshape(over) for numbers in (spec.mean, spec.deviation)
    )
    with np.errstate(over="ignore", invalid="ignore"):
        normal = ((floats - mean) / deviation).astype(np.float32, copy=False)
    if not np.isfinite(normal).all():
        raise ArrayError(
            f"array: numbers up to {float(np.abs(floats).max()):.3g} overflow when mean and "
            "deviation are applied; give a larger deviation, or smaller numbers"
        )
    return np.ascontiguousarray(normal)


def samples_in(array_shape: tuple[int, ...], shape: tuple[int, ...] | None) -> int | None:
    """Return how many samples of `shape` a file's array holds along its first axis.

    None where the array is one sample itself, or of neither shape: reading it as one says so.
    """
    if shape is None or array_shape in (shape, (prod(shape),)):
        return None
    return array_shape[0] if array_shape[1:] in (shape, (prod(shape),)) else None


def _way_out(shape: tuple[int, ...], spec: ArraySpec) -> str:
    wanted = list(spec.shape)
    if samples_in(shape, spec.shape) is not None:
        return (
            f"these are {count_of(shape[0], 'sample')} of {wanted}; set `[data] shape = {wanted}` "
            "in agent.toml, or give them one by one"
        )
    if sorted(shape) == sorted(spec.shape):
        return f"the model takes {wanted}; transpose it"
    return f"the model takes {wanted}; cut it into windows of that shape"


def _as_floats(values: AnyArray) -> Floats:
    if values.dtype.kind not in _NUMBERS:
        raise ArrayError(f"array: values of type {values.dtype}; save it as float32")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, "<f4").reshape(values.shape)


def _of_npy(data: bytes) -> AnyArray:
    """Read an `.npy` file without NumPy's reader, which makes room before it looks."""
    if data[:6] != _MAGIC or len(data) < 12 or data[6] not in (1, 2, 3):
        raise ArrayError(f"array: {count_of(len(data), 'byte')}, and no .npy file; use numpy.save")
    begin = 10 if data[6] == 1 else 12
    length = int.from_bytes(data[8:begin], "little")
    try:
        shape, dtype, turned = _header(data[begin : begin + length])
    except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError) as error:
        raise ArrayError(
            f"array: the header of the .npy file is damaged ({error}); save it again with "
            "numpy.save"
        ) from error
    _check_type(dtype)
    has, needs = len(data) - begin - length, prod(shape) * dtype.itemsize
    if has != needs:
        raise ArrayError(
            f"array: {count_of(has, 'byte')} of numbers, where shape {list(shape)} of {dtype} "
            f"has {needs}; copy the file again"
        )
    numbers = np.frombuffer(data, dtype, offset=begin + length)
    return numbers.reshape(shape, order="F" if turned else "C")


def _header(text: bytes) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Return shape, type and whether the order is Fortran's; raise what damaged text raises."""
    if len(text) > _MOST_OF_A_HEADER:
        raise ValueError(count_of(len(text), "byte"))
    header = ast.literal_eval(text.decode("latin-1").strip())
    shape, turned = tuple(header["shape"]), header["fortran_order"]
    known = all(type(axis) is int and axis >= 0 for axis in shape) and type(turned) is bool
    if not known or len(shape) > _MOST_AXES:
        raise ValueError(f"shape {shape[:_MOST_AXES]}")
    return shape, np.dtype(header["descr"]), turned


def _check_type(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in _NUMBERS or dtype.itemsize == 0:
        what = "Python objects, which are never unpickled" if dtype.hasobject else str(dtype)
        raise ArrayError(f"array: holds {what}; save it as float32")


def _of_npz(data: bytes) -> AnyArray:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [item.filename for item in archive.infolist()]
            arrays = [name for name in names if name.endswith(NPY)]
            name = arrays[0] if len(arrays) == 1 else f"{_ONE}{NPY}"
            if name not in arrays:
                raise ArrayError(
                    f"array: the .npz file holds {[one.removesuffix(NPY) for one in arrays][:10]}; "
                    f"keep one array, or call it {_ONE!r}"
                )
            with archive.open(name) as member:
                content = member.read(MAX_UNPACKED + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise ArrayError(
            f"array: the .npz file is damaged ({error}); save it again with numpy.savez"
        ) from error
    if len(content) > MAX_UNPACKED:
        raise ArrayError(_too_large())
    return _of_npy(content)


def _too_large() -> str:
    return f"array: unpacks to more than {MAX_UNPACKED} bytes; cut it into several files"


def _of_parquet(data: bytes) -> AnyArray:
    """Return the samples of a Parquet file: a column of lists, or columns of numbers as a row."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - only where such files are read
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise ArrayError(
            f"array: a Parquet file needs pyarrow; {pip_install('parquet')}, or save it as .npy"
        ) from error
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        sizes = [file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)]
        if sum(sizes) > MAX_UNPACKED:
            raise ArrayError(_too_large())
        batches, held = [], 0
        for batch in file.iter_batches(batch_size=1024):
            batches.append(batch)
            held += batch.nbytes
            if held > MAX_UNPACKED:
                raise ArrayError(_too_large())
        table = pa.Table.from_batches(batches, file.schema_arrow)
        return _of_columns({name: table.column(name) for name in table.column_names})
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArrayError(
            f"array: the Parquet file cannot be read ({str(error).splitlines()[0]}); write it "
            "again, its numbers as float32"
        ) from error


def _of_columns(columns: dict[str, Any]) -> AnyArray:
    """Return (rows, ...) of Arrow columns: those of one column of lists, or all in a row."""
    lists = [name for name, column in columns.items() if "list" in str(column.type)]
    if not lists:
        rows = np.stack([column.to_numpy() for column in columns.values()], axis=1)
        _check_type(rows.dtype)
        return rows
    name = lists[0] if len(lists) == 1 else _ONE
    if name not in lists:
        raise ArrayError(
            f"array: the Parquet file has columns of lists {lists[:10]}; keep one, or call it "
            f"{_ONE!r}"
        )
    rows = np.asarray(columns[name].to_pylist())  # ragged lists raise ValueError
    _check_type(rows.dtype)
    return rows
