"""OpenCV's bilinear resizing of 8-bit pictures, `cv2.resize(..., interpolation=cv2.INTER_LINEAR)`.

Centres of pixels lie at halves, and only the two nearest pixels along each side count: nothing is
smoothed where a picture becomes smaller. OpenCV computes in whole numbers, with weights of 11 bits
(`modules/imgproc/src/resize.cpp`: `HResizeLinear`, `VResizeLinear` and `FixedPtCast` for `uchar`):

    row(y)  = p[y, x] * a + p[y, x + 1] * b            a + b = 2048 but for rounding
    out     = (((row(y) >> 4) * c >> 16) + ((row(y + 1) >> 4) * d >> 16) + 2) >> 2

Half the size along both sides is the mean of four pixels, rounded, as OpenCV takes its `INTER_AREA`
there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_ONE = 2048
Pixels = npt.NDArray[np.uint8]


def resize_bilinear(pixels: Pixels, high: int, wide: int) -> Pixels:
    """Return pixels (h, w, C) of 8 bits as (high, wide, C), each number as OpenCV computes it."""
    height, width = pixels.shape[:2]
    if (height, width) == (high, wide):
        return pixels
    if (height, width) == (2 * high, 2 * wide):
        fours = pixels.astype(np.uint16).reshape(high, 2, wide, 2, -1)
        return np.asarray((fours.sum(axis=(1, 3)) + 2) >> 2, np.uint8)
    left, beside, share = _places(width, wide)
    edge = (left < 0) | (left >= width - 1)
    share = np.where(edge, np.float32(0), share)
    left = np.clip(left, 0, width - 1)
    top, below, slope = _places(height, high)
    a, b = _weights(share)[:, :, np.newaxis]
    c, d = _weights(slope)[:, :, np.newaxis, np.newaxis]
    rows, places = np.unique(np.clip([top, below], 0, height - 1), return_inverse=True)
    some = pixels[rows]
    beside = np.clip(beside, 0, width - 1)
    across = some[:, left].astype(np.int32) * a + some[:, beside].astype(np.int32) * b
    across >>= 4
    first, second = places.reshape(2, high)
    made = ((across[first] * c >> 16) + (across[second] * d >> 16) + 2) >> 2
    return np.asarray(made, np.uint8)


def _places(
    length: int, wanted: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.float32]]:
    """Return the pixel before each wanted one, the one behind that, and the share of the latter."""
    exact = ((np.arange(wanted) + 0.5) * (length / wanted) - 0.5).astype(np.float32)
    before = np.floor(exact).astype(np.intp)
    return before, before + 1, exact - before.astype(np.float32)


def _weights(share: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Return the weights of the pixels before and behind, as whole numbers."""
    both = np.stack([np.float32(1) - share, share])
    return np.asarray(np.rint(both * np.float32(_ONE)), np.int32)
