"""Pictures made from nothing, the same everywhere: to probe backbones and for golden batches."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
from PIL import Image

from learning.numerics.preprocessing import preprocess
from schemas.models import Preprocessing

_PATCHES = 8
"""Coloured patches along a side: smooth after resizing, nearer to a photograph than white noise."""


def noise_picture(number: int) -> Image.Image:
    """Return the picture of that number: 8 by 8 patches of colour from SHAKE-256."""
    size = _PATCHES * _PATCHES * 3
    values = hashlib.shake_256(f"fleetledger picture {number}".encode()).digest(size)
    return Image.frombytes("RGB", (_PATCHES, _PATCHES), values)


def noise_inputs(preprocessing: Preprocessing, count: int) -> npt.NDArray[np.float32]:
    """Return `count` preprocessed pictures, (count, ...) float32."""
    return np.stack([preprocess(noise_picture(number), preprocessing) for number in range(count)])
