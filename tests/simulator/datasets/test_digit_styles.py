"""Digits in several styles: each scan once, styles even in every class."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.simulator.datasets.digit_styles import NAMES, STYLES, split_digit_styles
from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.datasets.loading import DataSettings, load_split
from fleetledger.simulator.errors import DatasetError


def test_a_scan_is_there_once_in_one_style() -> None:
    plain, split = split_digits(3, 0.25), split_digit_styles(3, 0.25)
    for before, after in ((plain.train, split.train), (plain.test, split.test)):
        assert (before.labels == after.labels).all()
        ink = after.domains.of_sample == NAMES.index("ink")
        assert (before.images[ink] == after.images[ink]).all()
        assert (before.images[~ink] != after.images[~ink]).any(axis=(1, 2)).all()
        for label in range(10):
            counts = np.bincount(after.domains.of_sample[after.labels == label], minlength=6)
            assert counts.max() - counts.min() <= 1


def test_the_seed_decides_split_and_styles() -> None:
    one, same, other = (load_split(DataSettings(set="digit-styles"), seed) for seed in (1, 1, 2))
    assert one.train.fingerprint == same.train.fingerprint != other.train.fingerprint
    taken = one.train.take(np.array([5, 2]))
    assert taken.domains.of_sample.tolist() == one.train.domains.of_sample[[5, 2]].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_style_does_what_it_says(name: str) -> None:
    image = np.zeros((1, 8, 8), np.uint8)
    image[0, 0, 4] = image[0, 7, 4] = 200
    made = STYLES[name](image, np.random.default_rng(0))
    assert (made.shape, made.dtype) == ((1, 8, 8), np.uint8)
    bright = set(zip(*map(np.ndarray.tolist, np.nonzero(made[0] == 200)), strict=True))
    expected = {
        "ink": {(0, 4), (7, 4)},
        "negative": set(),
        "turned": {(3, 0), (3, 7)},
        "thick": {(y, x) for y in (0, 1, 6, 7) for x in (3, 4, 5)},
        "noisy": {(0, 4), (7, 4)},
        "sheared": {(0, 6), (7, 2)},
    }
    assert bright == expected[name]


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(DatasetError, match="test_share"):
        split_digit_styles(1, 1.0)
