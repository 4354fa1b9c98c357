"""Pictures and texts made from nothing, the same everywhere: for probes and golden batches."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.text import TextPreprocessing

_PATCHES = 8
"""Coloured patches along a side: smooth after resizing, nearer to a photograph than white noise."""
_DRAW_BYTES = 8
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


def noise_inputs(preprocessing: AnyPreprocessing, count: int) -> npt.NDArray[Any]:
    """Return `count` preprocessed samples: (count, ...) float32, or int64 of texts."""
    samples = [
        noise_text(number, preprocessing) if preprocessing.mode == "text" else noise_picture(number)
        for number in range(count)
    ]
    return np.stack([preprocess(sample, preprocessing) for sample in samples])


def flat_inputs(preprocessing: AnyPreprocessing) -> dict[str, npt.NDArray[Any]]:
    """Return preprocessed pictures of one colour by its name, as a covered lens gives; no texts."""
    if preprocessing.mode == "text":
        return {}
    side = (_PATCHES, _PATCHES)
    return {
        name: preprocess(Image.new("RGB", side, (level,) * 3), preprocessing)
        for name, level in _LEVELS.items()
    }
