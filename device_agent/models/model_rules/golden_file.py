"""The rules for a golden file that arrives: safetensors, and exactly the tensors that are expected.

The header is read first, as JSON of at most 16 KiB; sizes follow from what is expected, not from
what is declared; tensors lie one behind the other, without gap or overlap, to the end of the file.
So nothing is read into memory before it is known to fit. There is no other format: neither archives
nor pickles are looked into.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from fleetledger.device_agent.errors import RuleError
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError, shorten
from fleetledger.schemas.canonical import parse_json

MAX_GOLDEN_BYTES = 256 * 1024**2
MAX_GOLDEN_SAMPLES = 64
MAX_HEADER_BYTES = 16 * 1024
_LENGTH_BYTES = 8
_TYPES = {"float32": ("F32", 4), "int64": ("I64", 8)}
_ENTRY = {"dtype", "shape", "data_offsets"}


class GoldenTensor(NamedTuple):
    """A tensor that is expected: its type, and its shape behind the samples."""

    dtype: str
    """`float32` or `int64`."""
    axes: tuple[int | None, ...]
    """None for an axis of any length from 1 to that of a picture."""


def check_golden(path: Path, expected: dict[str, GoldenTensor]) -> None:
    """Raise `RuleError` unless a file holds exactly the tensors that are expected."""
    try:
        _check(path, expected)
    except (RuleError, SchemaError) as error:
        raise RuleError(
            f"file {path.name[:12]}: refused before it was read: no golden file: {error}"
        ) from error


def _check(path: Path, expected: dict[str, GoldenTensor]) -> None:
    size = path.stat().st_size
    if not _LENGTH_BYTES < size <= MAX_GOLDEN_BYTES:
        raise RuleError(f"{size} bytes; it has 9 to {MAX_GOLDEN_BYTES}")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > min(MAX_HEADER_BYTES, size - _LENGTH_BYTES):
            raise RuleError(f"its header declares {length} bytes; at most {MAX_HEADER_BYTES} fit")
        header = parse_json(file.read(length))
    if not isinstance(header, dict) or set(header) - {"__metadata__"} != set(expected):
        raise RuleError(f"its header names {shorten(str(header))}, not {', '.join(expected)}")
    spans = [_span(name, header[name], rule) for name, rule in expected.items()]
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise RuleError(f"a tensor begins at byte {begin}, and the one before ends at {at}")
        at = end
    if at != size - _LENGTH_BYTES - length:
        raise RuleError(f"{at} bytes of tensors in {size - _LENGTH_BYTES - length}")


def _span(name: str, entry: Any, rule: GoldenTensor) -> tuple[int, int]:  # noqa: ANN401 - any JSON value
    """Return where a tensor lies, after comparing its entry with what is expected."""
    if not isinstance(entry, dict) or set(entry) != _ENTRY:
        raise RuleError(f"{name}: {shorten(str(entry))} is no entry of a tensor")
    code, width = _TYPES[rule.dtype]
    shape = _integers(name, entry["shape"], len(rule.axes) + 1)
    fits = all(_allows(axis, found) for axis, found in zip(rule.axes, shape[1:], strict=True))
    if entry["dtype"] != code or not fits or not 1 <= shape[0] <= MAX_GOLDEN_SAMPLES:
        raise RuleError(
            f"{name}: {shorten(str(entry['dtype']))} of shape {shape}; {code} of "
            f"{('N', *rule.axes)} was expected"
        )
    begin, end = _integers(name, entry["data_offsets"], 2)
    if end - begin != prod(shape) * width:
        raise RuleError(
            f"{name}: {end - begin} bytes do not hold {count_of(prod(shape), 'number')}"
        )
    return begin, end


def _integers(name: str, values: Any, count: int) -> tuple[int, ...]:  # noqa: ANN401 - any JSON value
    """Return a list of `count` numbers that can be sizes."""
    if not isinstance(values, list) or len(values) != count:
        raise RuleError(f"{name}: {shorten(str(values))} where {count} numbers belong")
    if any(type(value) is not int or not 0 <= value <= MAX_GOLDEN_BYTES for value in values):
        raise RuleError(f"{name}: {shorten(str(values))}: sizes are 0 to {MAX_GOLDEN_BYTES}")
    return tuple(values)


def _allows(axis: int | None, found: int) -> bool:
    return found >= 1 if axis is None else found == axis
