"""Golden batches of dense networks: two pictures, and the small scores that pixels of them get.

Features are left out, as maps of them take megabytes for each picture. A picture that gives the
small scores has been through the whole pair but for the resizing, whose result they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from PIL import Image

from fleetledger.export.errors import ModelFileError
from fleetledger.export.golden import golden_inputs
from fleetledger.export.noise import noise_inputs
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import GOLDEN_INPUTS, SMALL_SCORES, AnyPreprocessing, Preprocessing

SAMPLES = 2


def build_dense_golden(
    preprocessing: AnyPreprocessing, samples: Sequence[bytes | Image.Image] = ()
) -> bytes:
    """Return the golden batch of all dense networks with that preprocessing: inputs alone.

    Of `samples`, which must be free to travel to every device, the first two count; made-up ones
    stand for those that lack. Raises `ImageError` or `TextError` for one that cannot be read.
    """
    given = [preprocess(sample, preprocessing) for sample in samples[:SAMPLES]]
    made_up = noise_inputs(preprocessing, SAMPLES)[len(given) :]
    return safetensors.numpy.save({GOLDEN_INPUTS: np.stack([*given, *made_up])})


def read_dense_golden(data: bytes, preprocessing: Preprocessing) -> npt.NDArray[Any]:
    """Return the pictures (N, ...) of a golden batch; raise `ModelFileError` if it is none."""
    inputs = golden_inputs(data)
    if not len(inputs) or inputs.shape[1:] != preprocessing.shape:
        raise ModelFileError(
            f"golden: {inputs.shape} inputs are no pictures of shape {preprocessing.shape}; make "
            "the batch again for this preprocessing"
        )
    return inputs


def write_dense_scores(small_scores: npt.NDArray[np.float32]) -> bytes:
    """Return the file of golden scores (N, C, h, w)."""
    return safetensors.numpy.save({SMALL_SCORES: np.ascontiguousarray(small_scores)})
