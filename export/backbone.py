"""Any ONNX feature extractor becomes a backbone: one sample in, a vector of features out.

The steps: hold the file to the rules, bring its opset into range, clean it, check its one input
against the preprocessing, free the batch axis, run it, pool if asked. What ONNX Runtime can show is
not believed but shown: the width of the features, that a batch gives what its samples give one by
one, and that a converted opset changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.cut import WITH_WEIGHTS, Cutting
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import (
    BATCH,
    MAX_OPSET,
    MIN_OPSET,
    clean,
    opset_of,
    prefix_names,
    write,
)
from fleetledger.export.incoming import (
    check_input,
    close,
    feeds_of,
    flat_pictures,
    free_batch,
    in_range,
    in_usual_shape,
    outputs_of,
    samples_at_once,
    with_usual_types,
)
from fleetledger.export.input_kinds import channels_last, input_kind
from fleetledger.export.meaning import whole_of
from fleetledger.export.noise import noise_inputs
from fleetledger.export.one_by_one import answer_of, remarks_on_batch
from fleetledger.export.own_output import check_output
from fleetledger.export.preprocessing_file import remarks_on_units
from fleetledger.export.rules import STANDARD_DOMAINS, check, read_model
from fleetledger.export.runtime import LoadedModel
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import MAX_FEATURES, AnyPreprocessing
from fleetledger.schemas.values import Digest

PREFIX = "backbone/"
_RESERVED = (PREFIX, "pool/", "map/")
_BEHIND_A_LAYER = frozenset({"Add", "Identity", "Dropout", "Cast", "Flatten", "Squeeze", "Reshape"})
_BEHIND_SCORES = frozenset({"Softmax", "LogSoftmax", "Sigmoid", "Transpose", "GlobalAveragePool"})
_Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ImportedBackbone:
    """A feature extractor that keeps to the rules: samples (N, ...) in, features (N, width) out."""

    model: bytes
    preprocessing: AnyPreprocessing
    feature_width: int
    opset: int
    remarks: tuple[str, ...] = ()
    """What the operator should know of it, a sentence each."""

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
    model = in_usual_shape(clean(in_range(read_model(data, domains))), preprocessing)
    check_input(model, preprocessing, _RESERVED)
    _check_output(model)
    model = with_usual_types(model, preprocessing)
    last = _last_layer(model)
    before = "" if last is None else str(last.input[0])
    layer = tuple(_remark_on_layer(model, last))
    prefix_names(model.graph, PREFIX, frozenset({preprocessing.input_name}))
    model, features = free_batch(model, preprocessing)
    if pool:
        features = _pool(model, features, preprocessing)
    _check_features(features, before, input_kind(preprocessing).maps)
    name, width = model.graph.output[0].name, features.shape[1]
    model.graph.output[0].CopyFrom(float_value(name, BATCH, width))
    result = write(model)
    check(result, domains)
    _compare_with_original(data, features, preprocessing, domains, pool=pool)
    remarks = (
        *remarks_on_batch(model),
        *layer,
        *flat_pictures(model, preprocessing).remarks,
        *remarks_on_units(preprocessing),
    )
    return ImportedBackbone(result, preprocessing, width, opset_of(model), remarks)


def _check_output(model: ModelProto) -> None:
    names = [value.name for value in model.graph.output]
    if len(names) != 1:
        raise ModelFileError(
            f"output: the model has {count_of(len(names), 'output')} {names}; keep only the "
            "features, or say which they are: `import-backbone --layer NAME`"
        )
    check_output(model, "--layer")


def _last_layer(model: ModelProto) -> NodeProto | None:
    """Return the layer with weights that is behind all others, if what follows it is plain."""
    cutting = Cutting(model.graph)
    node = cutting.maker(model.graph.output[0].name)
    while node is not None and node.op_type in _BEHIND_A_LAYER | _BEHIND_SCORES:
        node = next((made for name in node.input if (made := cutting.maker(name))), None)
    if node is None or node.op_type not in WITH_WEIGHTS or cutting.maker(node.input[0]) is None:
        return None
    return node


def _remark_on_layer(model: ModelProto, node: NodeProto | None) -> Iterator[str]:
    """Yield a sentence where the last layer makes fewer numbers, as a classifier's does."""
    constants = {item.name: item for item in model.graph.initializer}
    if node is None or node.op_type not in ("Gemm", "MatMul") or node.input[1] not in constants:
        return
    rows, columns = [*constants[node.input[1]].dims, 0, 0][:2]
    turned = any(item.name == "transB" and item.i for item in node.attribute)
    reads, makes = (columns, rows) if turned else (rows, columns)
    if makes < reads:
        yield (
            f"the last layer makes {count_of(makes, 'number')} of {reads}; if they are a "
            "classifier's scores, they tell less of new classes than what it reads: `--layer "
            f"{node.input[0]}`"
        )


def _pool(model: ModelProto, features: _Features, preprocessing: AnyPreprocessing) -> _Features:
    """Append the mean over a map's places to `model`; return what it now puts out."""
    maps = input_kind(preprocessing).maps
    if features.ndim not in maps:
        raise ModelFileError(
            f"pool: the output has the shape {features.shape}, only a feature map of rank "
            f"{', '.join(map(str, sorted(maps or {4})))} can be pooled; leave --pool out"
        )
    tail = GraphBuilder("pool/")
    name = model.graph.output[0].name
    if channels_last(preprocessing):
        name = tail.add("Transpose", name, perm=[0, 3, 1, 2])
    pooled = tail.add("Flatten", tail.add("GlobalAveragePool", name), axis=1)
    model.graph.node.extend(tail.nodes)
    model.graph.output[0].CopyFrom(float_value(pooled, BATCH, "width"))
    return outputs_of(model, preprocessing)


def _check_features(features: _Features, before: str, maps: frozenset[int]) -> None:
    """Raise `ModelFileError` unless there is a vector; `before` is what the last layer reads."""
    if features.ndim == 4 or features.ndim in maps:
        raise ModelFileError(
            f"output: a feature map of shape {features.shape[1:]} per sample; give --pool to "
            "average it over its places"
        )
    if features.ndim != 2 or not 1 <= features.shape[1] <= MAX_FEATURES:
        raise ModelFileError(
            f"output: shape {features.shape[1:]} per image; a backbone gives one vector of at most "
            f"{MAX_FEATURES} features per image: `import-backbone --layer NAME` takes an inner "
            "value and pools maps and tokens, or export the pooled output or the class token"
        )
    if not np.isfinite(features).all():
        raise ModelFileError(
            "output: NaN or infinite features for an ordinary sample; check mean, deviation and "
            "divide_by in the preprocessing"
        )
    whole = whole_of(features)
    if whole is not None:
        raise ModelFileError(
            f"output: no number is below 0, and those of an image sum to {whole:g}: these look "
            "like a classifier's probabilities, which tell little of new classes. Give features: "
            f"`import-backbone --layer {before or 'NAME'}` takes an earlier value, node or module, "
            "and an export without the last layers does too"
        )


def _compare_with_original(
    data: bytes,
    features: _Features,
    preprocessing: AnyPreprocessing,
    domains: frozenset[str],
    *,
    pool: bool,
) -> None:
    """Run the file as it came, where this ONNX Runtime can, and compare one image's features."""
    came = clean(read_model(data, domains))
    (feeds,) = feeds_of(came, preprocessing, noise_inputs(preprocessing, 1))
    try:
        made = next(iter(LoadedModel(data).run(feeds).values()))
    except ModelFileError:
        return  # too new: there is nothing to compare with
    original = answer_of(made, samples_at_once(came, preprocessing) or 1)[np.newaxis]
    if pool:
        places = tuple(range(1, original.ndim))
        original = original.mean(axis=places[:-1] if channels_last(preprocessing) else places[1:])
    if not close(original, features[:1]):
        raise ModelFileError(
            "model: the imported network gives other features than the file; export it with an "
            f"opset from {MIN_OPSET} to {MAX_OPSET}"
        )
