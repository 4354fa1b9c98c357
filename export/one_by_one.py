"""A network for one sample, run once for each sample of a batch, by one `Scan` of ONNX.

Where a batch of one is part of the arithmetic (a class token of shape (1, 1, width) that `Concat`
puts before an image's, a `Squeeze` or `Slice` of axis 0), no declaration frees it. Its numbers for
a sample are those of the network alone, whatever lies beside the sample.
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, ModelProto, helper, numpy_helper

from fleetledger.export.builder import float_value, typed_value
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import BATCH, prefix_names, write
from fleetledger.export.noise import noise_inputs
from fleetledger.export.runtime import LoadedModel
from fleetledger.schemas.models import AnyPreprocessing

PREFIX = "one_by_one/"
_SCAN = PREFIX + "scan"
ONE_BY_ONE = (
    "a batch of it cannot be run at once, so devices run its samples one by one; an export with a "
    "dynamic batch axis may be quicker, and can be cut before its last layer"
)


def run_one_by_one(model: ModelProto, preprocessing: AnyPreprocessing) -> ModelProto:
    """Return a network with a free batch axis; raise `ModelFileError` where one sample fails."""
    name, inputs = preprocessing.input_name, noise_inputs(preprocessing, 1)
    output = model.graph.output[0].name
    made = LoadedModel(write(model)).run({name: inputs}, [output])[output]
    if made.dtype != np.float32 or made.shape[:1] != (1,):
        raise ModelFileError(
            f"output: {made.dtype} of shape {made.shape} for one sample; give one row of float32 "
            "numbers for it"
        )
    kind = model.graph.input[0].type.tensor_type.elem_type
    inner, result = GraphProto(), ModelProto()
    inner.CopyFrom(model.graph)
    result.CopyFrom(model)
    prefix_names(inner, PREFIX, frozenset())
    shapes = {"given": inputs.shape, "made": made.shape[1:]}
    constants = [
        numpy_helper.from_array(np.array(shape, np.int64), f"{PREFIX}shape/{side}")
        for side, shape in shapes.items()
    ]
    sample, answer = f"{PREFIX}shape/sample", f"{PREFIX}shape/answer"
    source, end = inner.input[0].name, inner.output[0].name
    body = helper.make_graph(
        [
            helper.make_node("Reshape", [sample, constants[0].name], [source]),
            *inner.node,
            helper.make_node("Reshape", [end, constants[1].name], [answer]),
        ],
        "body",
        [typed_value(sample, kind, *preprocessing.shape)],
        [float_value(answer, *made.shape[1:])],
    )
    graph = helper.make_graph(
        [helper.make_node("Scan", [name], [output], name=_SCAN, body=body, num_scan_inputs=1)],
        "graph",
        [typed_value(name, kind, BATCH, *preprocessing.shape)],
        [float_value(output, BATCH, *made.shape[1:])],
        [*inner.initializer, *constants],
    )
    result.graph.CopyFrom(graph)
    return result


def runs_one_by_one(model: ModelProto) -> bool:
    """Return whether `run_one_by_one` made a network."""
    return any(node.op_type == "Scan" and node.name.endswith(_SCAN) for node in model.graph.node)
