"""Fed-EWC's Fisher diagonals at the coordinator: their mean over devices, and over stages.

Devices send F divided by its cap, numbers from 0 to 1, so that the grid of the sum fits them.

    F <- alpha F_old + (1 - alpha) F_new,   alpha = C_old / C_all     (specification of Fed-EWC)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.head import ROWS
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.methods.errors import ContributionError
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.tensors import Expected, encode_tensors, read_tensors
from fleetledger.schemas.values import ClassName

Arrays = Mapping[str, npt.NDArray[Any]]

_CLASSES = "class_names"
_LARGEST_FILE = 1 << 30


def unit_zeros(weights: Arrays) -> dict[str, npt.NDArray[np.float32]]:
    """Return zeros in the shape of what is trained: where a Fisher diagonal begins."""
    return {
        name: np.zeros(array.shape, np.float32)
        for name, array in weights.items()
        if not is_buffer(name)
    }


def consolidated(
    old: bytes | None,
    new: Arrays,
    class_names: Sequence[ClassName],
    aliases: Mapping[ClassName, ClassName],
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the diagonal that stands for all stages so far.

    Rows of the head that only `new` has are taken from it as they are. `aliases` are other names of
    classes, which those in `old` may have; of merged ones the first row counts.
    """
    merged = {name: np.asarray(array, np.float32) for name, array in new.items()}
    if old is None:
        return merged
    earlier, written = decode_fisher(old, {name: array.shape for name, array in merged.items()})
    known = [aliases.get(name, name) for name in written]
    kept = [name for name in class_names if name in known]
    alpha = np.float32(len(kept) / len(class_names))
    before = [known.index(item) for item in kept]
    after = [list(class_names).index(item) for item in kept]
    for name, array in earlier.items():
        if name in ROWS:
            merged[name][after] = alpha * array[before] + (1 - alpha) * merged[name][after]
        else:
            merged[name] = alpha * array + (1 - alpha) * merged[name]
    return merged


def encode_fisher(fisher: Arrays, class_names: Sequence[ClassName]) -> bytes:
    """Return a diagonal as bytes."""
    return encode_tensors(fisher, {_CLASSES: list(class_names)})


def decode_fisher(
    data: bytes, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, npt.NDArray[Any]], tuple[ClassName, ...]]:
    """Return a diagonal and the rows of its head; raise `ContributionError` for another file.

    `shapes` are those of the weights now; the head of the diagonal may have fewer rows.
    """

    def expected(metadata: dict[str, Any]) -> dict[str, Expected]:
        rows = len(metadata.get(_CLASSES, ()))
        return {
            name: Expected("float32", (rows, *shape[1:]) if name in ROWS else shape)
            for name, shape in shapes.items()
        }

    try:
        file = read_tensors(data, expected, _LARGEST_FILE)
        return file.tensors, tuple(ClassName(name) for name in file.metadata.get(_CLASSES, ()))
    except SchemaError as error:
        raise ContributionError(f"fisher: {error}") from error
