"""ONNX graphs: walk them, clean them, rename, and write them with deterministic bytes.

Cleaned models hold no producer, documentation or metadata: those carry paths of the exporting
machine and would change the digest. IR version 9 and an opset of at most 20 are what ONNX Runtime
1.17 and the newest one for Python 3.10 are sure to read.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from fleetledger.export.errors import ModelFileError

IR_VERSION = 9
MAX_IR_VERSION = 10
MIN_OPSET = 11
"""`Round` and the pooling and normalising operators mean the same from here on."""
MAX_OPSET = 20
BATCH = "N"
"""Name of the batch axis."""
MAX_NESTING = 8


def clean(model: ModelProto) -> ModelProto:
    """Return a copy with our IR version, without names of producers, documents and metadata.

    Initialisers that old exporters also list as inputs are no inputs any more.
    """
    old = model.graph
    graph = GraphProto()
    graph.CopyFrom(old)
    fixed = {tensor.name for tensor in old.initializer}
    del graph.input[:]
    graph.input.extend(value for value in old.input if value.name not in fixed)
    for part in nested_graphs(graph):
        _strip(part)
    graph.name = "graph"
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    standard = opset_of(model)
    used = {node.domain for node in nodes_of(graph)} - {"", "ai.onnx"}
    imports = [helper.make_opsetid("", standard)]
    imports += [helper.make_opsetid(domain, opsets[domain]) for domain in sorted(used)]
    cleaned = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    cleaned.ClearField("producer_name")
    return cleaned


def write(model: ModelProto) -> bytes:
    """Return the one byte string of `model`."""
    return bytes(model.SerializeToString(deterministic=True))


def opset_of(model: ModelProto) -> int:
    """Return the version of the standard operators that `model` uses."""
    return max(
        (entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")),
        default=1,
    )


def output_width(model: ModelProto) -> int:
    """Return the declared width of the first output, which has the shape (N, width)."""
    shape = output_shape(model)
    if len(shape) != 1 or shape[0] < 1:
        raise ModelFileError(
            "model: its output does not declare the shape (N, width); import it as a backbone"
        )
    return shape[0]


def output_shape(model: ModelProto) -> tuple[int, ...]:
    """Return the declared shape of the first output behind its batch axis; 0 for a free axis."""
    _, *axes = model.graph.output[0].type.tensor_type.shape.dim
    return tuple(int(axis.dim_value) for axis in axes)


def nested_graphs(graph: GraphProto, depth: int = 0) -> Iterator[GraphProto]:
    """Yield `graph` and the graphs inside its nodes; raise `ModelFileError` if they nest deeply."""
    if depth > MAX_NESTING:
        raise ModelFileError(
            f"model: graphs nest deeper than {MAX_NESTING}; export it without loops"
        )
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from nested_graphs(inner, depth + 1)


def prefix_names(graph: GraphProto, prefix: str, keep: frozenset[str]) -> None:
    """Put `prefix` before every name of tensors and nodes, except those in `keep`."""

    def renamed(name: str) -> str:
        return name if not name or name in keep else prefix + name

    for part in nested_graphs(graph):
        for node in part.node:
            node.name = prefix + node.name if node.name else ""
            node.input[:] = [renamed(name) for name in node.input]
            node.output[:] = [renamed(name) for name in node.output]
        for tensor in part.initializer:
            tensor.name = renamed(tensor.name)
        for sparse in part.sparse_initializer:
            sparse.values.name = renamed(sparse.values.name)
        for value in (*part.input, *part.output):
            value.name = renamed(value.name)


def tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield every tensor stored in `graph` itself; inner graphs are walked by `nested_graphs`."""
    yield from graph.initializer
    sparse = list(graph.sparse_initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                sparse.append(attribute.sparse_tensor)
            sparse.extend(attribute.sparse_tensors)
    for tensor in sparse:
        yield tensor.values
        yield tensor.indices


def nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """Yield the nodes of `graph` and of all graphs inside it."""
    for part in nested_graphs(graph):
        yield from part.node


def _strip(graph: GraphProto) -> None:
    """Remove what does not change the result: documents, metadata, declared inner shapes."""
    graph.ClearField("doc_string")
    graph.ClearField("metadata_props")
    graph.ClearField("value_info")
    graph.ClearField("quantization_annotation")
    for item in (*graph.node, *graph.input, *graph.output):
        item.ClearField("doc_string")
        item.ClearField("metadata_props")
    for tensor in tensors_of(graph):
        tensor.ClearField("doc_string")
        tensor.ClearField("metadata_props")
    for node in graph.node:
        node.domain = "" if node.domain == "ai.onnx" else node.domain
        for attribute in node.attribute:
            attribute.ClearField("doc_string")
