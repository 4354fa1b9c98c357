"""The digits that come with scikit-learn: 1,797 scans of handwritten digits, 8x8 grey pixels.

They are part of the library, so nothing is fetched.
"""

from __future__ import annotations

import numpy as np

from schemas.installing import pip_install
from schemas.values import ClassName
from simulator.datasets.images import LabelledImages, Split
from simulator.datasets.splitting import stratified_split
from simulator.errors import DatasetError

TEST_SHARE = 0.25
CLASS_NAMES = tuple(ClassName(str(digit)) for digit in range(10))
_LARGEST_VALUE = 16  # the scans count the inked pixels of 4x4 blocks


def load_digits() -> LabelledImages:
    """Return all digits, values scaled from 0..16 to 0..255 and rounded."""
    try:
        from sklearn.datasets import load_digits as load  # noqa: PLC0415 - takes a second to import
    except ImportError as error:
        raise DatasetError(
            f"data set digits: needs scikit-learn; {pip_install('simulator')}"
        ) from error
    bunch = load()
    images = np.rint(bunch.images * 255 / _LARGEST_VALUE).astype(np.uint8)
    return LabelledImages(images, bunch.target.astype(np.int64), CLASS_NAMES)


def split_digits(seed: int, test_share: float = TEST_SHARE) -> Split[LabelledImages]:
    """Return the digits in two parts, each class in the same proportion in both.

    The same seed gives the same split. Raises `DatasetError` unless `test_share` is in (0, 1).
    """
    digits = load_digits()
    train, test = stratified_split(digits.labels, test_share, seed)
    return Split(train=digits.take(train), test=digits.take(test))
