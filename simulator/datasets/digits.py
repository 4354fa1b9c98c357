"""The test part of UCI's optdigits: 1,797 scans of handwritten digits, 8x8 grey pixels.

The file travels with the package (E. Alpaydin and C. Kaynak, 1998, doi:10.24432/C50P49, CC BY 4.0),
so nothing is fetched. scikit-learn's `load_digits` has the same scans.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.labels import stratified_split

TEST_SHARE = 0.25
CLASS_NAMES = tuple(ClassName(str(digit)) for digit in range(10))
_FILE = Path(__file__).parent / "optdigits" / "optdigits.tes.gz"
"""A line for each digit: its 64 pixels, row by row, and which digit it is."""
_SIDE = 8
_LARGEST_VALUE = 16  # the scans count the inked pixels of 4x4 blocks


def load_digits() -> LabelledImages:
    """Return all digits, values scaled from 0..16 to 0..255 and rounded."""
    table = np.loadtxt(_FILE, delimiter=",")
    images = np.rint(table[:, :-1].reshape(-1, _SIDE, _SIDE) * 255 / _LARGEST_VALUE)
    return LabelledImages(images.astype(np.uint8), table[:, -1].astype(np.int64), CLASS_NAMES)


def split_digits(seed: int, test_share: float = TEST_SHARE) -> Split[LabelledImages]:
    """Return the digits in two parts, each class in the same proportion in both.

    The same seed gives the same split. Raises `DatasetError` unless `test_share` is in (0, 1).
    """
    digits = load_digits()
    train, test = stratified_split(digits.labels, test_share, seed)
    return Split(train=digits.take(train), test=digits.take(test))
