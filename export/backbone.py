"""Any ONNX feature extractor becomes a backbone: one sample in, a vector of features out.

The steps: hold the file to the rules, bring its opset into range, clean it, check its one input
against the preprocessing, free the batch axis, run it, pool if asked. What ONNX Runtime can show is
not believed but shown: the width of the features, that a batch gives what its samples give one by
one, and that a converted opset changed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx.version_converter
from onnx import ModelProto, TensorProto

from export.batch import batch_candidates
from export.builder import GraphBuilder, float_value
from export.errors import ModelFileError
from export.graph import BATCH, MAX_OPSET, MIN_OPSET, clean, opset_of, prefix_names, write
from export.noise import noise_inputs
from export.rules import STANDARD_DOMAINS, check, read_model
from export.runtime import LoadedModel
from schemas.models import FEATURES, MAX_FEATURES, AnyPreprocessing
from schemas.values import Digest

PREFIX = "backbone/"
_RESERVED = (PREFIX, "pool/", "map/")
_PROBES = 3
_ROUNDING = 1e-3
"""Of the largest feature: kernels for a batch may round otherwise than those for one image."""
_CONVERTED_UP = 17
_Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ImportedBackbone:
    """A feature extractor that keeps to the rules: samples (N, ...) in, features (N, width) out."""

    model: bytes
    preprocessing: AnyPreprocessing
    feature_width: int
    opset: int

    @property
    def digest(self) -> Digest:
        """SHA-256 of the model's bytes."""
        return Digest.of(self.model)


def import_backbone(
    data: bytes,
    preprocessing: AnyPreprocessing,
    *,
    pool: bool = False,
    domains: frozenset[str] = STANDARD_DOMAINS,
) -> ImportedBackbone:
    """Make a backbone of the ONNX file `data`.

    `pool` averages a feature map over its pixels; `domains` are the operator domains allowed.
    Raises `ModelFileError` naming what is wrong with the file and what to do about it.
    """
    model = clean(_in_range(read_model(data, domains)))
    _check_input(model, preprocessing)
    _check_output(model)
    prefix_names(model.graph, PREFIX, frozenset({preprocessing.input_name}))
    model, features = _probe(model, preprocessing)
    if pool:
        features = _pool(model, features, preprocessing)
    _check_features(features)
    name, width = model.graph.output[0].name, features.shape[1]
    model.graph.output[0].CopyFrom(float_value(name, BATCH, width))
    result = write(model)
    check(result, domains)
    _compare_with_original(data, features, preprocessing, pool=pool)
    return ImportedBackbone(result, preprocessing, width, opset_of(model))


def _in_range(model: ModelProto) -> ModelProto:
    opset = opset_of(model)
    if MIN_OPSET <= opset <= MAX_OPSET:
        return model
    target = MAX_OPSET if opset > MAX_OPSET else _CONVERTED_UP
    try:
        return onnx.version_converter.convert_version(model, target)
    except Exception as error:  # the converter raises RuntimeError and others of its own
        raise ModelFileError(
            f"model: opset {opset} cannot be converted to {target} ({error}); export it again with "
            f"an opset from {MIN_OPSET} to {MAX_OPSET}"
        ) from error


def _check_input(model: ModelProto, preprocessing: AnyPreprocessing) -> None:
    names = [value.name for value in model.graph.input]
    expected = preprocessing.input_name
    if names != [expected]:
        raise ModelFileError(
            f"input_name: the preprocessing says {expected!r}, the model's inputs are {names}; "
            "a backbone has exactly one input, and the preprocessing gives its name"
        )
    if expected == FEATURES or expected.startswith(_RESERVED):
        raise ModelFileError(
            f"input_name: {expected!r} is reserved; rename the input, for example to 'image'"
        )
    tensor = model.graph.input[0].type.tensor_type
    shape = [dimension.dim_value for dimension in tensor.shape.dim]
    _check_kind(expected, tensor.elem_type, len(shape), preprocessing)
    if any(
        has not in (0, wants) for has, wants in zip(shape[1:], preprocessing.shape, strict=True)
    ):
        raise ModelFileError(
            f"input {expected!r}: the model takes {_takes(preprocessing)} of shape "
            f"{tuple(shape[1:])}, the preprocessing makes {preprocessing.shape}; change "
            f"{'length' if preprocessing.mode == 'text' else 'size, mode or layout'}"
        )


def _takes(preprocessing: AnyPreprocessing) -> str:
    return "texts" if preprocessing.mode == "text" else "images"


def _check_kind(name: str, element: int, rank: int, preprocessing: AnyPreprocessing) -> None:
    text = preprocessing.mode == "text"
    wanted = (TensorProto.INT64, 2) if text else (TensorProto.FLOAT, 4)
    if (element, rank) != wanted:
        kind = "INT64 token ids of rank 2" if text else "a FLOAT image of rank 4"
        raise ModelFileError(
            f"input {name!r}: {TensorProto.DataType.Name(element)} of rank {rank} is not "
            f"supported; export it with {kind}"
        )


def _check_output(model: ModelProto) -> None:
    names = [value.name for value in model.graph.output]
    if len(names) != 1:
        raise ModelFileError(
            f"output: the model has {len(names)} outputs {names}; keep only the features"
        )


def _probe(model: ModelProto, preprocessing: AnyPreprocessing) -> tuple[ModelProto, _Features]:
    """Return the first variant with a free batch axis that runs a batch rightly, and its result."""
    first: ModelFileError | None = None
    for candidate in batch_candidates(model, preprocessing.shape):
        try:
            return candidate, _features(candidate, preprocessing)
        except ModelFileError as error:
            first = first or error
    raise ModelFileError(f"{first}; if its batch is fixed, export it with a dynamic batch axis")


def _features(model: ModelProto, preprocessing: AnyPreprocessing) -> _Features:
    loaded = LoadedModel(write(model))
    name, inputs = preprocessing.input_name, noise_inputs(preprocessing, _PROBES)
    together = next(iter(loaded.run({name: inputs}).values()))
    if together.dtype != np.float32 or together.ndim < 1 or len(together) != _PROBES:
        raise ModelFileError(
            f"output: {together.dtype} of shape {together.shape} for {_PROBES} images; give one "
            "row of float32 features per image"
        )
    alone = [next(iter(loaded.run({name: image[None]}).values())) for image in inputs]
    if not _close(together, np.concatenate(alone)):
        raise ModelFileError(
            "output: an image gives other features alone than in a batch; export the network in "
            "inference mode"
        )
    return together


def _pool(model: ModelProto, features: _Features, preprocessing: AnyPreprocessing) -> _Features:
    """Append the mean over all pixels to `model`; return what it now puts out."""
    if features.ndim != 4 or preprocessing.mode == "text":
        raise ModelFileError(
            f"pool: the output has the shape {features.shape}, only a feature map of rank 4 can be "
            "pooled; leave --pool out"
        )
    tail = GraphBuilder("pool/")
    name = model.graph.output[0].name
    if preprocessing.layout == "NHWC":
        name = tail.add("Transpose", name, perm=[0, 3, 1, 2])
    pooled = tail.add("Flatten", tail.add("GlobalAveragePool", name), axis=1)
    model.graph.node.extend(tail.nodes)
    model.graph.output[0].CopyFrom(float_value(pooled, BATCH, "width"))
    return _features(model, preprocessing)


def _check_features(features: _Features) -> None:
    if features.ndim == 4:
        raise ModelFileError(
            f"output: a feature map of shape {features.shape[1:]} per image; give --pool to "
            "average it over its pixels"
        )
    if features.ndim != 2 or not 1 <= features.shape[1] <= MAX_FEATURES:
        raise ModelFileError(
            f"output: shape {features.shape[1:]} per image; a backbone gives one vector of at most "
            f"{MAX_FEATURES} features per image: export the pooled output or the class token"
        )
    if not np.isfinite(features).all():
        raise ModelFileError(
            "output: NaN or infinite features for an ordinary picture; check mean, deviation and "
            "divide_by in the preprocessing"
        )


def _compare_with_original(
    data: bytes, features: _Features, preprocessing: AnyPreprocessing, *, pool: bool
) -> None:
    """Run the file as it came, where this ONNX Runtime can, and compare one image's features."""
    image = noise_inputs(preprocessing, 1)
    try:
        original = next(iter(LoadedModel(data).run({preprocessing.input_name: image}).values()))
    except ModelFileError:
        return  # too new or of a fixed larger batch: there is nothing to compare with
    if pool and preprocessing.mode != "text":
        original = original.mean(axis=(2, 3) if preprocessing.layout == "NCHW" else (1, 2))
    if not _close(original, features[:1]):
        raise ModelFileError(
            "model: the imported network gives other features than the file; export it with an "
            f"opset from {MIN_OPSET} to {MAX_OPSET}"
        )


def _close(some: npt.NDArray[np.float32], others: npt.NDArray[np.float32]) -> bool:
    if some.shape != others.shape:
        return False
    largest = float(np.abs(others[np.isfinite(others)]).max(initial=0.0))
    return np.allclose(some, others, rtol=0, atol=_ROUNDING * largest, equal_nan=True)
