"""Golden batches: a few inputs with the answers they must give, for every device's self-test.

The batch belongs to the lineage: `inputs` (preprocessed samples) and `features` (what the frozen
model made of them here). The golden scores belong to one head: `scores` (N, C). Both are
safetensors files.
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
from fleetledger.schemas.models import FEATURES, GOLDEN_INPUTS, SCORES, AnyPreprocessing

SAMPLES = 8
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
    given = [preprocess(sample, preprocessing) for sample in samples[:SAMPLES]]
    made_up = noise_inputs(preprocessing, SAMPLES)[len(given) :]
    inputs = np.stack([*given, *made_up])
    features = frozen_features(LoadedModel(frozen), preprocessing.input_name, inputs)
    return safetensors.numpy.save({GOLDEN_INPUTS: inputs, FEATURES: features})


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


def write_golden_scores(scores: _Floats) -> bytes:
    """Return the file of golden scores (N, C)."""
    return safetensors.numpy.save({SCORES: scores})


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
