"""Golden batches: a few inputs with the answers they must give, for every device's self-test.

The batch belongs to the lineage: `inputs` (preprocessed samples) and `features` (what the frozen
model made of them here). The golden scores belong to one head: `scores` (N, C). Both are
safetensors files.

The batch of a dense network has two pictures and no features, as maps of these take megabytes for
each picture; its golden scores are the small scores (N, C, h, w) that pixels get. A picture that
gives these has been through the whole pair but for the resizing, whose result they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy
from PIL import Image

from fleetledger.export.errors import ModelFileError
from fleetledger.export.noise import noise_inputs
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import (
    FEATURES,
    GOLDEN_INPUTS,
    SCORES,
    AnyPreprocessing,
    Preprocessing,
)

SAMPLES, PICTURES = 8, 2
_Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Golden:
    """A golden batch: inputs (N, ...) and the features (N, M) of the frozen model."""

    inputs: npt.NDArray[Any]
    features: _Floats


def build_golden(
    frozen: bytes, preprocessing: AnyPreprocessing, samples: Sequence[bytes | Image.Image] = ()
) -> bytes:
    """Return the golden batch of a frozen model: eight samples, made up where some lack.

    Of `samples` the first eight count; they must be free to travel to every device. Raises
    `SampleError` for one that cannot be read, `ModelFileError` if the features are not finite.
    """
    inputs = _inputs(preprocessing, samples, SAMPLES)
    features = frozen_features(LoadedModel(frozen), preprocessing.input_name, inputs)
    return safetensors.numpy.save({GOLDEN_INPUTS: inputs, FEATURES: features})


def build_dense_golden(
    preprocessing: AnyPreprocessing, samples: Sequence[bytes | Image.Image] = ()
) -> bytes:
    """Return the golden batch of all dense networks with that preprocessing: inputs alone.

    Of `samples` the first two count, as for `build_golden`.
    """
    return safetensors.numpy.save({GOLDEN_INPUTS: _inputs(preprocessing, samples, PICTURES)})


def _inputs(
    preprocessing: AnyPreprocessing, samples: Sequence[bytes | Image.Image], count: int
) -> npt.NDArray[Any]:
    given = [preprocess(sample, preprocessing) for sample in samples[:count]]
    return np.stack([*given, *noise_inputs(preprocessing, count)[len(given) :]])


def read_golden(data: bytes) -> Golden:
    """Read a golden batch; raise `ModelFileError` if it is none."""
    try:
        tensors = safetensors.numpy.load(data)
        golden = Golden(tensors[GOLDEN_INPUTS], tensors[FEATURES])
    except (safetensors.SafetensorError, KeyError) as error:
        raise ModelFileError(
            f"golden: no golden batch ({error}); make it again from the frozen model"
        ) from error
    if len(golden.inputs) != len(golden.features) or golden.features.ndim != 2:
        raise ModelFileError(
            f"golden: {golden.inputs.shape} inputs and {golden.features.shape} features do not "
            "belong together; make it again from the frozen model"
        )
    return golden


def read_dense_golden(data: bytes, preprocessing: Preprocessing) -> npt.NDArray[Any]:
    """Return the pictures (N, ...) of a golden batch; raise `ModelFileError` if it is none."""
    inputs = golden_inputs(data)
    if not len(inputs) or inputs.shape[1:] != preprocessing.shape:
        raise ModelFileError(
            f"golden: {inputs.shape} inputs are no pictures of shape {preprocessing.shape}; make "
            "the batch again for this preprocessing"
        )
    return inputs


def write_golden_scores(scores: _Floats, name: str = SCORES) -> bytes:
    """Return the file of golden scores (N, ...), under `SMALL_SCORES` those of pixels."""
    return safetensors.numpy.save({name: np.ascontiguousarray(scores)})


def golden_inputs(data: bytes) -> npt.NDArray[Any]:
    """Return the preprocessed samples of a golden batch of any kind; raise `ModelFileError`."""
    try:
        inputs: npt.NDArray[Any] = safetensors.numpy.load(data)[GOLDEN_INPUTS]
    except (safetensors.SafetensorError, KeyError) as error:
        raise ModelFileError(f"golden: no golden batch ({error}); make it again") from error
    return inputs


def frozen_features(model: LoadedModel, input_name: str, inputs: npt.NDArray[Any]) -> _Floats:
    """Run the frozen model; raise `ModelFileError` if a feature is NaN or infinite."""
    features = model.run({input_name: inputs})[FEATURES]
    if not np.isfinite(features).all():
        raise ModelFileError(
            "frozen: NaN or infinite features; check mean, deviation and divide_by"
        )
    return features
