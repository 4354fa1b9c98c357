"""The self-test: a model has to give on this device the answers that it gave at the coordinator.

- The golden batch, through both parts: features like the golden ones, scores within the manifest's
  tolerance of the golden scores. A processor rounds otherwise than the coordinator's, and a rounded
  feature may then be one step off, so features are compared as a whole.
- A variant of the frozen part has fewer bits; what it strays by itself, its manifest adds to these.
- A few images of this device: scores of the right shape, and finite ones for some of them. One for
  which there are none stands alone, and says nothing of the model.

A model of pixels has no golden features, because maps of them take megabytes: what is compared of
its golden pictures are the small scores. It runs a picture at a time, and so does a raw one, whose
whole output is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.device_agent.errors import SelfTestError
from fleetledger.device_agent.models.inference.installed_model import Floats, Inputs, InstalledModel
from fleetledger.device_agent.models.sample_answers import each_alone
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import (
    FEATURES,
    GOLDEN_INPUTS,
    SCORES,
    SMALL_SCORES,
    Manifest,
    Preprocessing,
)

FEATURE_TOLERANCE = 0.05
"""Largest length of the difference to the golden features, as a share of their own length."""


def self_test(
    model: InstalledModel, golden: bytes, golden_scores: bytes, samples: Sequence[Inputs] = ()
) -> None:
    """Raise `SelfTestError`, saying in words what is wrong, unless the model does what it should.

    `golden` and `golden_scores` are the files that the manifest pins, `samples` preprocessed images
    of this device.
    """
    if model.of_pixels or model.is_raw:
        test = _test_pixels if model.of_pixels else _test_raw
        test(model, golden, golden_scores, samples)
        return
    inputs, features, scores = _read_golden(model.manifest, golden, golden_scores)
    found = model.features(inputs)
    _check_array("features of the golden batch", found, features.shape)
    strays = float(np.linalg.norm(found - features) / max(float(np.linalg.norm(features)), 1e-9))
    variant = model.manifest.variant(model.variant)
    allowed = FEATURE_TOLERANCE if variant is None else variant.feature_tolerance
    if strays > allowed:
        raise SelfTestError(
            f"self-test: features of the golden batch stray by {strays:.1%} with {model.told}, "
            f"{allowed:.0%} are allowed"
        )
    answers = model.scores(found)
    _check_array("scores of the golden batch", answers, scores.shape)
    _compare(model, answers, scores)
    if samples:
        rows = each_alone(lambda some: model.scores(model.features(some)), np.asarray(samples))
        expected = (len(model.manifest.class_names),)
        _check_samples([row for row in rows if row is not None], len(samples), expected)


def golden_inputs(golden: bytes) -> Inputs:
    """Return the inputs (N, ...) of a golden batch; raise `SelfTestError` if it is none."""
    (inputs,) = _read_tensors(golden, GOLDEN_INPUTS)
    return inputs


def _test_pixels(
    model: InstalledModel, golden: bytes, golden_scores: bytes, samples: Sequence[Inputs]
) -> None:
    made = model.manifest.preprocessing
    if not isinstance(made, Preprocessing):
        raise SelfTestError(
            f"self-test: answers 'pixels' of mode {made.mode!r}; import the model again"
        )
    planes = len(model.manifest.class_names)
    (pictures,) = _read_tensors(golden, GOLDEN_INPUTS)
    (scores,) = _read_tensors(golden_scores, SMALL_SCORES)
    _check_array("golden inputs", pictures, (len(pictures), *made.shape), made.dtype)
    small = scores.shape[2:] if scores.ndim == 4 else ("h", "w")
    _check_array("golden scores", scores, (len(pictures), planes, *small))
    for picture, expected in zip(pictures, scores, strict=True):
        answers = model.pixel_scores(picture).small
        _check_array("small scores of the golden batch", answers, expected.shape)
        _compare(model, answers, expected)
    # The large scores are in no file, as they are made of the small ones: a picture tells enough.
    expected = (planes, *made.size)
    if not samples:
        answers = model.pixel_scores(pictures[0]).large
        _check_array("scores of a golden picture", answers, expected)
        return
    found = [model.pixel_scores(picture).large for picture in samples]
    _check_samples([row for row in found if np.isfinite(row).all()], len(samples), expected)


def _test_raw(
    model: InstalledModel, golden: bytes, golden_scores: bytes, samples: Sequence[Inputs]
) -> None:
    made, shape = model.manifest.preprocessing, model.manifest.output_shape
    (inputs,) = _read_tensors(golden, GOLDEN_INPUTS)
    (scores,) = _read_tensors(golden_scores, SCORES)
    _check_array("golden inputs", inputs, (len(inputs), *made.shape), made.dtype)
    _check_array("golden scores", scores, (len(inputs), *shape))
    for sample, expected in zip(inputs, scores, strict=True):
        answers = model.raw_output(sample)
        _check_array("scores of the golden batch", answers, shape)
        _compare(model, answers, expected)
    if samples:
        found = [model.raw_output(sample) for sample in samples]
        _check_samples([row for row in found if np.isfinite(row).all()], len(samples), shape)


def _check_samples(answers: Sequence[Floats], samples: int, shape: tuple[int, ...]) -> None:
    """Check the finite answers to images of this device; raise `SelfTestError`."""
    if not answers:
        raise SelfTestError(
            "self-test: NaN or infinity in the scores of all "
            f"{count_of(samples, 'image')} of this device"
        )
    for answer in answers:
        _check_array("scores of this device's images", answer, shape)


def _compare(model: InstalledModel, answers: Floats, scores: Floats) -> None:
    difference = float(np.abs(answers - scores).max())
    if difference > model.tolerance:
        raise SelfTestError(
            f"self-test: scores of the golden batch stray by {difference:.3g} with "
            f"{model.told}, {model.tolerance:.3g} is allowed"
        )


def _read_golden(
    manifest: Manifest, golden: bytes, golden_scores: bytes
) -> tuple[Inputs, Floats, Floats]:
    inputs, features = _read_tensors(golden, GOLDEN_INPUTS, FEATURES)
    (scores,) = _read_tensors(golden_scores, SCORES)
    count = len(inputs)
    made = manifest.preprocessing
    _check_array("golden inputs", inputs, (count, *made.shape), made.dtype)
    _check_array("golden features", features, (count, manifest.feature_width))
    _check_array("golden scores", scores, (count, len(manifest.class_names)))
    return inputs, features, scores


def _read_tensors(data: bytes, *names: str) -> list[npt.NDArray[Any]]:
    import safetensors.numpy  # noqa: PLC0415 - needed for self-tests only

    try:
        batch = safetensors.numpy.load(data)
        return [batch[name] for name in names]
    except (safetensors.SafetensorError, KeyError) as error:
        raise SelfTestError(f"golden: no golden batch ({error}); export the model again") from error


def _check_array(
    name: str, array: npt.NDArray[Any], shape: tuple[int | str, ...], dtype: str = "float32"
) -> None:
    if array.shape != shape or array.dtype != dtype:
        raise SelfTestError(
            f"self-test: {name} are {array.dtype} of shape {array.shape}, {dtype} of {shape} was "
            "expected"
        )
    if not np.isfinite(array).all():
        raise SelfTestError(f"self-test: {name} hold NaN or infinity")
