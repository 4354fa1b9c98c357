"""The rules that every ONNX file of this house keeps to, as it comes in and as it goes out.

- one file, no external data, at most 512 MiB;
- operators of the standard domain only, unless a domain is allowed by name; no `EPContext`;
- no model-local functions, no training information, bounded nodes and nesting;
- what goes out: IR version at most 10 and opset at most 20.
"""

from __future__ import annotations

import onnx
from onnx import GraphProto, ModelProto, TensorProto

from export.errors import ModelFileError
from export.graph import (
    MAX_IR_VERSION,
    MAX_OPSET,
    nested_graphs,
    nodes_of,
    opset_of,
    tensors_of,
)

STANDARD_DOMAINS = frozenset({""})
MAX_MODEL_BYTES = 512 * 1024**2
MAX_NODES = 20_000


def read_model(data: bytes, domains: frozenset[str] = STANDARD_DOMAINS) -> ModelProto:
    """Parse `data` and hold it to the rules above, versions excepted.

    Raises `ModelFileError` naming the rule that is broken and what to do.
    """
    if len(data) > MAX_MODEL_BYTES:
        raise ModelFileError(
            f"model: {len(data)} bytes exceed {MAX_MODEL_BYTES}; export a smaller network"
        )
    model = _parse(data)
    for graph in nested_graphs(model.graph):
        _refuse_external_data(graph)
    _refuse_extras(model)
    _check_nodes(model, domains)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ModelFileError(f"model: not valid ONNX: {error}; export it again") from error
    return model


def check(data: bytes, domains: frozenset[str] = STANDARD_DOMAINS) -> ModelProto:
    """Hold finished bytes to all rules, versions included; return the model."""
    model = read_model(data, domains)
    if model.ir_version > MAX_IR_VERSION or opset_of(model) > MAX_OPSET:
        raise ModelFileError(
            f"model: IR version {model.ir_version} and opset {opset_of(model)} exceed "
            f"{MAX_IR_VERSION} and {MAX_OPSET}; import it as a backbone, which converts it"
        )
    return model


def _parse(data: bytes) -> ModelProto:
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's error, without importing protobuf here
        raise ModelFileError(_not_onnx(data)) from error
    if not model.ir_version or not model.graph.node:
        raise ModelFileError(_not_onnx(data))
    return model


def _not_onnx(data: bytes) -> str:
    return (
        f"model: {len(data)} bytes beginning with {data[:8]!r} are no ONNX model; give the .onnx "
        "file itself"
    )


def _refuse_external_data(graph: GraphProto) -> None:
    for tensor in tensors_of(graph):
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            raise ModelFileError(
                f"model: tensor {tensor.name!r} lies in another file; save the model as one file "
                "(onnx.save with save_as_external_data=False)"
            )


def _refuse_extras(model: ModelProto) -> None:
    for what, count in (
        ("local functions", len(model.functions)),
        ("training information", len(model.training_info)),
    ):
        if count:
            raise ModelFileError(
                f"model: holds {what} ({count}); export it for inference, with functions inlined"
            )


def _check_nodes(model: ModelProto, domains: frozenset[str]) -> None:
    count = 0
    for node in nodes_of(model.graph):
        count += 1
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in domains or node.op_type == "EPContext":
            raise ModelFileError(
                f"model: operator {node.op_type!r} of domain {domain!r} is not allowed; export "
                "with standard ONNX operators only, or allow the domain by name"
            )
    if count > MAX_NODES:
        raise ModelFileError(f"model: {count} nodes exceed {MAX_NODES}; export a smaller network")
