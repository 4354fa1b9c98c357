"""Windows of scenes, pixel by pixel in whole numbers and fractions: slow and obvious."""

from fractions import Fraction
from math import floor

import numpy as np

from fleetledger.learning.training.scenes import SceneCrops


def slow_window(crops: SceneCrops, picture: np.ndarray, mask: np.ndarray, word: int):
    """Return the window of a picture (c, h, w) and its mask (h, w) that a word draws.

    The picture comes back as floats, before they are rounded to bytes.
    """
    height, width = crops.size or mask.shape
    scale = crops.least_scale + (crops.most_scale - crops.least_scale) * (
        (word >> 33 & 0xFFFF) / 65535
    )
    rows = _Side(mask.shape[0], height, scale, word & 0xFFFF)
    columns = _Side(mask.shape[1], width, scale, word >> 16 & 0xFFFF)
    seen = np.zeros((len(picture), height, width))
    labels = np.full((height, width), 255)
    for i in range(height):
        for j in range(width):
            y, x = rows.shown(i), columns.shown(j)
            to = width - 1 - j if crops.flip and word >> 32 & 1 else j
            row, column = floor(y + Fraction(1, 2)), floor(x + Fraction(1, 2))
            if 0 <= row < mask.shape[0] and 0 <= column < mask.shape[1]:
                labels[i, to] = mask[row, column]
                for channel, values in enumerate(picture):
                    seen[channel, i, to] = _mean_of_four(values, y, x)
    return seen, labels


class _Side:
    def __init__(self, length: int, window: int, scale: float, drawn: int) -> None:
        self.length, self.scaled = length, round(scale * length)
        free = self.scaled - window
        place = drawn * (abs(free) + 1) // 65536
        self.start = place if free >= 0 else -place

    def shown(self, pixel: int) -> Fraction:
        middle = pixel + self.start + Fraction(1, 2)
        return middle * Fraction(self.length, self.scaled) - Fraction(1, 2)


def _mean_of_four(values: np.ndarray, y: Fraction, x: Fraction) -> float:
    total = 0.0
    for row in (floor(y), floor(y) + 1):
        for column in (floor(x), floor(x) + 1):
            near = (1 - abs(y - row)) * (1 - abs(x - column))
            total += float(near) * float(_clamped(values, row, column))
    return total


def _clamped(values: np.ndarray, row: int, column: int) -> int:
    height, width = values.shape
    return values[min(max(row, 0), height - 1), min(max(column, 0), width - 1)]
