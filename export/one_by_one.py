"""A network for a fixed number of samples, run once for each of a batch, by one `Scan` of ONNX.

Where a batch of one is part of the arithmetic (a class token of shape (1, 1, width) that `Concat`
puts before an image's, a `Squeeze` or `Slice` of axis 0), no declaration frees it. Its numbers for
a sample are those of the network alone, whatever lies beside the sample. A network for more samples
is given each one that many times, and its first row counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, ModelProto, helper

from fleetledger.export.builder import GraphBuilder, float_value, typed_value
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import BATCH, nodes_of, prefix_names, write
from fleetledger.export.noise import noise_inputs
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import AnyPreprocessing

Values = npt.NDArray[Any]
PREFIX = "one_by_one/"
_SCAN = PREFIX + "scan"
_ONE_BY_ONE = (
    "a batch of it cannot be run at once, so devices run its samples one by one; an export with a "
    "dynamic batch axis may be quicker, and can be cut before its last layer"
)
_ONE_AS_SEVERAL = (
    "it takes {count} samples at once and no other number, so devices give it each sample {count} "
    "times, which is {count} times the work; export it for one sample, or with a dynamic batch axis"
)
_OF_ANY_NUMBER = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose rows are as many as the numbers make them."""
_CLOSE = 1e-3
"""Of the largest value: difference that rounding makes."""


def run_one_by_one(model: ModelProto, preprocessing: AnyPreprocessing) -> ModelProto:
    """Return a network with a free batch axis; raise `ModelFileError` where one sample fails."""
    count = max(model.graph.input[0].type.tensor_type.shape.dim[0].dim_value, 1)
    name, output = preprocessing.input_name, model.graph.output[0].name
    axes = _answer_of_one(model, preprocessing, count).shape
    kind = model.graph.input[0].type.tensor_type.elem_type
    inner, result = GraphProto(), ModelProto()
    inner.CopyFrom(model.graph)
    result.CopyFrom(model)
    prefix_names(inner, PREFIX, frozenset())
    body = GraphBuilder(f"{PREFIX}body/")
    sample, answer = f"{PREFIX}sample", f"{PREFIX}answer"
    source, end = inner.input[0].name, inner.output[0].name
    one = body.constant("one", [1, *preprocessing.shape], np.int64)
    if count == 1:
        body.add("Reshape", sample, one, output=source)
    else:
        several = body.constant("several", [count, *preprocessing.shape], np.int64)
        body.add("Expand", body.add("Reshape", sample, one), several, output=source)
    body.nodes.extend(inner.node)
    if count > 1:
        end = body.add("Gather", end, body.constant("first", 0, np.int64), axis=0)
    body.add("Reshape", end, body.constant("axes", axes, np.int64), output=answer)
    scanned = helper.make_graph(
        body.nodes,
        "body",
        [typed_value(sample, kind, *preprocessing.shape)],
        [float_value(answer, *axes)],
    )
    scan = helper.make_node(
        "Scan", [name], [output], name=f"{_SCAN}/{count}", body=scanned, num_scan_inputs=1
    )
    graph = helper.make_graph(
        [scan],
        "graph",
        [typed_value(name, kind, BATCH, *preprocessing.shape)],
        [float_value(output, BATCH, *axes)],
        [*inner.initializer, *body.constants],
    )
    result.graph.CopyFrom(graph)
    return result


def answer_of(made: Values, count: int) -> Values:
    """Return what a network for `count` samples says of the first one, which has an axis at least.

    A network for one may leave out the axis of samples; all that it gives is the sample's then.
    """
    if made.shape[:1] == (count,):
        made = made[0]
    elif count > 1:
        raise ModelFileError(
            f"batch: fixed at {count}, and cannot be freed: the output has the shape {made.shape}; "
            "export it for one sample, or with a dynamic batch axis"
        )
    return made.reshape(1) if made.ndim == 0 else made


def _answer_of_one(model: ModelProto, preprocessing: AnyPreprocessing, count: int) -> Values:
    """Return the answer to a made-up sample; raise `ModelFileError` where the others change it."""
    name, output = preprocessing.input_name, model.graph.output[0].name
    inputs, loaded = noise_inputs(preprocessing, count), LoadedModel(write(model))
    together = loaded.run({name: inputs}, [output])[output]
    if together.dtype != np.float32 or not together.size:
        raise ModelFileError(
            f"output: {together.dtype} of shape {together.shape} for one sample; give one row of "
            "float32 numbers for it"
        )
    made = answer_of(together, count)
    drawn = {node.op_type for node in nodes_of(model.graph)} & _OF_ANY_NUMBER
    if drawn and made.shape == together.shape:
        raise ModelFileError(
            f"output: {min(drawn)!r} gives as many rows as a sample has it give; export an output "
            "of a fixed shape"
        )
    if count > 1:
        repeated = np.repeat(inputs[:1], count, axis=0)
        alone = answer_of(loaded.run({name: repeated}, [output])[output], count)
        if not np.allclose(made, alone, rtol=0, atol=_CLOSE * float(np.abs(alone).max())):
            raise ModelFileError(
                f"batch: fixed at {count}, and its samples change each other's numbers; export it "
                "in inference mode, for one sample"
            )
    return made


def remarks_on_batch(model: ModelProto) -> tuple[str, ...]:
    """Return a sentence on a network that `run_one_by_one` made; of others none."""
    scans = [node.name for node in model.graph.node if node.op_type == "Scan"]
    counts = [int(name.rsplit("/", 1)[1]) for name in scans if f"{_SCAN}/" in name]
    return tuple(
        _ONE_BY_ONE if count == 1 else _ONE_AS_SEVERAL.format(count=count) for count in counts
    )
