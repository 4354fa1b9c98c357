"""Colours of masks: VOC's palette, which most viewers of segmentations use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IGNORED = 255
"""The value of pixels that are left out of everything."""
_IGNORED_COLOUR = (224, 224, 192)
"""Of borders and void in VOC's own palette, where 255 would come out thus."""


def voc_colours() -> npt.NDArray[np.uint8]:
    """Return a fixed colour for every value, uint8 (256, 3): black for 0, as in VOC's palette.

    Every three bits of a value set a bit of red, green and blue, from the highest bit down, so that
    values near each other look different.
    """
    values = np.arange(256)
    colours = np.zeros((256, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            colours[:, channel] |= ((values >> channel & 1) << 7 - bit).astype(np.uint8)
        values = values >> 3
    colours[IGNORED] = _IGNORED_COLOUR
    return colours
