"""The digits of `digits` in several styles, each a domain: the same classes look otherwise.

    ink        as they were scanned
    negative   dark on light
    turned     a quarter to the left
    thick      every pixel as its brightest neighbour
    noisy      on a background of noise
    sheared    every row of pixels moved, those at the top to the right

A scan is in the training or test part once, in one style, so that no style shows what another
hides. Styles are dealt evenly within each class of each part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.samples import Domains

Images = NDArray[np.uint8]
_NOISE = 160
"""Brightest pixel of the noisy background."""
_SHEAR = 3
"""Pixels by which the highest row is moved against the lowest."""


def _thick(images: Images, _random: np.random.Generator) -> Images:
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    height, width = images.shape[1:]
    around = [padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return np.asarray(np.max(around, axis=0), np.uint8)


def _noisy(images: Images, random: np.random.Generator) -> Images:
    noise = random.integers(0, _NOISE, images.shape, endpoint=True)
    return np.asarray(np.maximum(images, noise), np.uint8)


def _sheared(images: Images, _random: np.random.Generator) -> Images:
    moved, height = np.zeros_like(images), images.shape[1]
    for row in range(height):
        by = round(_SHEAR * (0.5 - row / (height - 1)))
        moved[:, row] = np.roll(images[:, row], by, axis=1)
    return moved


STYLES: dict[str, Callable[[Images, np.random.Generator], Images]] = {
    "ink": lambda images, _random: images,
    "negative": lambda images, _random: np.asarray(255 - images, np.uint8),
    "turned": lambda images, _random: np.rot90(images, axes=(1, 2)),
    "thick": _thick,
    "noisy": _noisy,
    "sheared": _sheared,
}
"""What becomes of uint8 pictures (N, h, w), by style."""
NAMES = tuple(STYLES)


def split_digit_styles(seed: int, test_share: float) -> Split[LabelledImages]:
    """Return the digits in two parts as `split_digits` does, each in one style.

    The same seed gives the same split and styles. Raises `DatasetError` unless `test_share` is in
    (0, 1).
    """
    split = split_digits(seed, test_share)
    random = np.random.default_rng([seed, len(NAMES)])
    return Split(train=_in_styles(split.train, random), test=_in_styles(split.test, random))


def _in_styles(digits: LabelledImages, random: np.random.Generator) -> LabelledImages:
    style_of = np.empty(len(digits), np.int64)
    for label in range(digits.classes):
        members = random.permutation(np.flatnonzero(digits.labels == label))
        style_of[members] = np.arange(len(members)) % len(NAMES)
    images = digits.images.copy()
    for number, name in enumerate(NAMES):
        here = style_of == number
        images[here] = STYLES[name](digits.images[here], random)
    return LabelledImages(
        images, digits.labels, digits.class_names, domains=Domains(NAMES, style_of)
    )
