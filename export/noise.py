"""Samples made from nothing, the same everywhere: for probes and golden batches."""

from __future__ import annotations

import hashlib
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.models import AnyPreprocessing, Preprocessing
from fleetledger.schemas.text import TextPreprocessing

_PATCHES = 8
"""Coloured patches along a side: smooth after resizing, nearer to a photograph than white noise."""
_DRAW_BYTES = 8
_SPREAD = 2.0
"""Deviations from the mean that numbers of an array reach."""
_LEVELS = {"black": 0, "grey": 128, "white": 255}


def noise_picture(number: int) -> Image.Image:
    """Return the picture of that number: 8 by 8 patches of colour from SHAKE-256."""
    size = _PATCHES * _PATCHES * 3
    values = hashlib.shake_256(f"fleetledger picture {number}".encode()).digest(size)
    return Image.frombytes("RGB", (_PATCHES, _PATCHES), values)


def noise_text(number: int, spec: TextPreprocessing) -> bytes:
    """Return the text file of that number: as many tokens as fit, drawn by SHAKE-256."""
    given = hashlib.shake_256(f"fleetledger text {number}".encode())
    draws = np.frombuffer(given.digest(_DRAW_BYTES * spec.length), "<u8")
    if spec.tokens == "characters":
        return "".join(spec.alphabet[draw % len(spec.alphabet)] for draw in draws.tolist()).encode()
    if spec.tokens == "bytes":
        return draws.astype(np.uint8).tobytes()
    assert spec.vocabulary is not None
    return " ".join(str(draw % spec.vocabulary) for draw in draws.tolist()).encode()


def noise_array(number: int, spec: ArrayPreprocessing) -> npt.NDArray[Any]:
    """Return the array of that number: within two deviations of the mean, drawn by SHAKE-256."""
    given = hashlib.shake_256(f"fleetledger array {number}".encode())
    draws = np.frombuffer(given.digest(4 * prod(spec.shape)), "<u4").reshape(spec.shape)
    over = (-1, *(1,) * (len(spec.shape) - 1))
    mean, deviation = (np.reshape(numbers, over) for numbers in (spec.mean, spec.deviation))
    return np.asarray(mean + deviation * _SPREAD * (draws / 2.0**31 - 1))


def _noise(number: int, spec: AnyPreprocessing) -> bytes | Image.Image | npt.NDArray[Any]:
    match spec:
        case TextPreprocessing():
            return noise_text(number, spec)
        case ArrayPreprocessing():
            return noise_array(number, spec)
        case Preprocessing():
            return noise_picture(number)


def noise_inputs(preprocessing: AnyPreprocessing, count: int) -> npt.NDArray[Any]:
    """Return `count` preprocessed samples: (count, ...) float32, or int64 of texts."""
    return np.stack(
        [preprocess(_noise(number, preprocessing), preprocessing) for number in range(count)]
    )


def flat_inputs(preprocessing: AnyPreprocessing) -> dict[str, npt.NDArray[Any]]:
    """Return preprocessed pictures of one colour by its name, as a covered lens gives.

    There are none of texts and arrays.
    """
    if not isinstance(preprocessing, Preprocessing):
        return {}
    side = (_PATCHES, _PATCHES)
    return {
        name: preprocess(Image.new("RGB", side, (level,) * 3), preprocessing)
        for name, level in _LEVELS.items()
    }
