"""A shared set that nobody's camera saw: smooth patterns, made by both sides from the seed.

Each picture is a coarse grid of random grey or colour, 2 to 5 cells a side, drawn out to the
network's size without edges. White noise would tell a network nothing. All is integers of the
counter-based generator, so every machine makes the same bytes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from learning.networks.seeding import stream_key
from learning.numerics.counter_generator import random_words

_CELLS = (2, 3, 4, 5)
_ONE = 256
"""Of fixed-point shares between two cells."""


@lru_cache(2)
def synthetic_images(seed: int, count: int, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    """Return `count` pictures (count, c, h, w), not to be changed; of one seed always the same."""
    pictures = np.stack([_picture(stream_key(seed, "synthetic", i), shape) for i in range(count)])
    pictures.flags.writeable = False
    return pictures


def _picture(key: int, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    channels, height, width = shape
    first = int(random_words(key, 0, 1)[0])
    side = _CELLS[first % len(_CELLS)]
    words = random_words(key, 1, channels * side * side) >> np.uint64(56)
    cells = words.astype(np.int64).reshape(channels, side, side)
    tall = _drawn_out(cells, height)
    wide = _drawn_out(tall.swapaxes(1, 2), width).swapaxes(1, 2)
    return np.asarray(wide // (_ONE * _ONE), np.uint8)


def _drawn_out(cells: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """Return cells (c, k, m) between which `length` places lie on lines, times `_ONE`."""
    last = cells.shape[1] - 1
    places = np.arange(length) * last * _ONE // max(1, length - 1)
    before = np.minimum(places // _ONE, last - 1)
    share = (places - before * _ONE)[:, np.newaxis]
    return np.asarray(cells[:, before] * (_ONE - share) + cells[:, before + 1] * share)
