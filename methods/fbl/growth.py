"""A dense network's head that follows the fleet's classes: row 0 is background's, others by name.

Where the fleet has classes already, new rows begin as shares of background's, so that no other
probability changes (MiB, as FBL has it); the first ones, and those of rivals, are drawn by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal

import numpy.typing as npt

from fleetledger.learning.networks.head import ROWS, grow_head
from fleetledger.learning.networks.segmentation.head import grow_from_background
from fleetledger.methods.training.network_weights import Arrays
from fleetledger.schemas.values import ClassName

Growth = Literal["background", "seeded"]


def grown(
    arrays: Mapping[str, npt.NDArray[Any]],
    old: Sequence[ClassName],
    new: Sequence[ClassName],
    growth: Growth,
    seed: int,
) -> Arrays:
    """Return the weights with the head's rows of background and of `new`, in that order.

    Rows of classes that are in `old` are kept.
    """
    added = [name for name in new if name not in old]
    if growth == "background" and old:
        every = grow_from_background(arrays, len(added))
    else:
        every = grow_head(arrays, added, seed)
    places = (*old, *added)
    return _with_rows(every, [places.index(name) for name in new])


def first_rows(
    arrays: Mapping[str, npt.NDArray[Any]],
    written: Sequence[ClassName],
    names: Sequence[ClassName],
    aliases: Mapping[ClassName, ClassName],
) -> tuple[Arrays, tuple[ClassName, ...]]:
    """Return tensors whose head has background's row and those that `names` begins with.

    Which these are is told beside them. `written` are the rows as they were called when the
    tensors were made, and `aliases` other names of `names`; of merged classes the first row stays.
    """
    own = [aliases.get(name, name) for name in written]
    first = tuple(takewhile(lambda name: name in own, names))
    return _with_rows(arrays, [own.index(name) for name in first]), first


def _with_rows(arrays: Mapping[str, npt.NDArray[Any]], classes: Sequence[int]) -> Arrays:
    rows = [0, *(1 + place for place in classes)]
    return {name: array[rows] if name in ROWS else array for name, array in arrays.items()}
