"""An exact sum of a method as bytes, and again from them.

    4 bytes, big-endian     length of the next
    JSON                    dataclasses by name and field, tables as pairs, arrays by place
    arrays                  one behind the other, in C order

Only dataclasses of `methods` and `learning`, names of classes and plain values are written. Bytes
are read only where the coordinator's own key has signed them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from fleetledger.methods.statistics.sides import ExactAggregate
from fleetledger.schemas.values import ClassName

_ROOMS = ("fleetledger.methods.", "fleetledger.learning.")
_LENGTH = 4


def write_sum(total: ExactAggregate) -> bytes:
    """Return the bytes of a sum; raise `TypeError` for a value that they cannot say."""
    arrays: list[np.ndarray[Any, Any]] = []
    tree = json.dumps(_written(total, arrays), separators=(",", ":")).encode()
    parts = (np.ascontiguousarray(array).tobytes() for array in arrays)
    return b"".join((len(tree).to_bytes(_LENGTH, "big"), tree, *parts))


def read_sum(data: bytes) -> ExactAggregate:
    """Return the sum of what `write_sum` returned."""
    start = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
    total: ExactAggregate = _Reader(data, start).read(json.loads(data[_LENGTH:start]))
    return total


def _written(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:  # noqa: ANN401 - any field
    match value:
        case None | bool() | int() | float():
            return value
        case np.ndarray():
            arrays.append(value)
            return {"array": value.dtype.str, "shape": list(value.shape)}
        case ClassName():
            return {"name": str(value)}
        case str():
            return value
        case bytes():
            return {"bytes": value.hex()}
        case tuple() | list():
            return [_written(item, arrays) for item in value]
        case _ if is_dataclass(value) and type(value).__module__.startswith(_ROOMS):
            found = {f.name: _written(getattr(value, f.name), arrays) for f in fields(value)}
            return {"of": f"{type(value).__module__}:{type(value).__qualname__}", "fields": found}
        case Mapping():
            return {"pairs": [[_written(k, arrays), _written(v, arrays)] for k, v in value.items()]}
        case _:
            raise TypeError(f"{type(value).__qualname__}: is not said by the bytes of a sum")


class _Reader:
    """Reads values in the order in which they were written."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._at = data, start

    def read(self, said: Any) -> Any:  # noqa: ANN401 - any field
        match said:
            case {"array": dtype, "shape": shape}:
                count = int(np.prod(shape, dtype=np.int64))
                array = np.frombuffer(self._data, dtype, count, self._at).reshape(shape)
                self._at += array.nbytes
                return array.copy()  # sums are added to in their place
            case {"name": name}:
                return ClassName(name)
            case {"bytes": digits}:
                return bytes.fromhex(digits)
            case {"pairs": pairs}:
                return {self.read(key): self.read(value) for key, value in pairs}
            case {"of": of, "fields": found}:
                module, _, name = of.partition(":")
                made = getattr(import_module(module), name)
                return made(**{key: self.read(value) for key, value in found.items()})
            case list():
                return tuple(map(self.read, said))
            case _:
                return said
