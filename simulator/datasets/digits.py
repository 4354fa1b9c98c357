"""The digits that come with scikit-learn: 1,797 scans of handwritten digits, 8x8 grey pixels.

They are part of the library, so nothing is fetched.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from schemas.installing import pip_install
from schemas.values import ClassName
from simulator.datasets.images import LabelledImages, Split
from simulator.datasets.splitting import stratified_split
from simulator.errors import DatasetError

TEST_SHARE = 0.25
CLASS_NAMES = tuple(ClassName(str(digit)) for digit in range(10))
_SIDE = 8
_LARGEST_VALUE = 16  # the scans count the inked pixels of 4x4 blocks


def load_digits() -> LabelledImages:
    """Return all digits, values scaled from 0..16 to 0..255 and rounded."""
    table = _table()
    images = np.rint(table[:, :-1].reshape(-1, _SIDE, _SIDE) * 255 / _LARGEST_VALUE)
    return LabelledImages(images.astype(np.uint8), table[:, -1].astype(np.int64), CLASS_NAMES)


def _table() -> npt.NDArray[np.float64]:
    """Return a row for each digit (n, 65): its pixels, and what it is.

    The library's file is read without the library, whose import takes longer than a small run
    trains; by the library where the file lies elsewhere. Raises `DatasetError` without it.
    """
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise DatasetError(f"data set digits: needs scikit-learn; {pip_install('simulator')}")
    file = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if file.is_file():
        return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits as load  # noqa: PLC0415 - takes a second to import

    bunch = load()
    return np.column_stack([bunch.data, bunch.target])


def split_digits(seed: int, test_share: float = TEST_SHARE) -> Split[LabelledImages]:
    """Return the digits in two parts, each class in the same proportion in both.

    The same seed gives the same split. Raises `DatasetError` unless `test_share` is in (0, 1).
    """
    digits = load_digits()
    train, test = stratified_split(digits.labels, test_share, seed)
    return Split(train=digits.take(train), test=digits.take(test))
