"""Maps at another size: linear between the centres of pixels, first along rows, then columns.

Pixel i of n covers (i, i + 1) / n of the side, so its centre is at (i + 0.5) / n; outside the outer
centres the outer pixels go on. Networks resize their scores like this (torch's bilinear
interpolation with `align_corners=False`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


def resized(maps: Floats, size: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Return maps (..., h, w) at `size` (height, width), in float64."""
    rows = _shares(maps.shape[-2], size[0])
    columns = _shares(maps.shape[-1], size[1])
    return np.asarray(rows @ maps.astype(np.float64) @ columns.T)


def _shares(before: int, after: int) -> npt.NDArray[np.float64]:
    """Return what each old pixel of a line gives to each new one, (after, before)."""
    places = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
    distances = np.abs(places[:, np.newaxis] - np.arange(before))
    return np.asarray(np.maximum(1 - distances, 0))
