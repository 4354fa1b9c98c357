"""The rules that every ONNX file of this house keeps to, as it comes in and as it goes out.

- those of `learning.onnx_files`, by which devices judge what arrives, before any library reads it;
- a graph that ONNX's own checker takes;
- what goes out: IR version at most 10 and opset at most 20.
"""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnx.inliner
from onnx import ModelProto, NodeProto, helper, numpy_helper

from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import MAX_IR_VERSION, MAX_OPSET, nested_graphs, opset_of
from fleetledger.learning.errors import GraphFileError
from fleetledger.learning.onnx_files.file_rules import has_functions, read_onnx

STANDARD_DOMAINS = frozenset({""})
_FIRST_BYTE = b"\x08"
"""Tag of the version, which all writers of ONNX put first."""


def read_model(
    data: bytes, domains: frozenset[str] = STANDARD_DOMAINS, *, exported: bool = False
) -> ModelProto:
    """Parse `data` and hold it to the rules above, versions excepted.

    `exported` says that nothing changes it any more before devices get it. Raises `ModelFileError`
    naming the rule that is broken and what to do.
    """
    try:
        if not exported and has_functions(data):  # they are put where they are called
            inlined = onnx.inliner.inline_local_functions(onnx.load_model_from_string(data))
            data = bytes(inlined.SerializeToString())
        read_onnx(data, domains, exported=exported)
        model = onnx.load_model_from_string(data)
    except GraphFileError as error:
        raise ModelFileError(_told(data, str(error))) from error
    except Exception as error:  # protobuf's error, without importing protobuf here
        raise ModelFileError(_not_onnx(data)) from error
    if not exported:
        _without_erfc(model)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ModelFileError(f"model: not valid ONNX: {_shown(error)}") from error
    return model


def _without_erfc(model: ModelProto) -> None:
    """Write erfc(x) as 1 - erf(x): tf2onnx writes `Erfc`, which no opset has, for an exact GELU."""
    for graph in nested_graphs(model.graph):
        nodes = list[NodeProto]()
        for node in graph.node:
            if (node.domain, node.op_type) != ("", "Erfc"):
                nodes.append(node)
                continue
            of, one = f"{node.output[0]}/erf", f"{node.output[0]}/one"
            number = numpy_helper.from_array(np.float32(1), one)
            nodes += [
                helper.make_node("Constant", [], [one], value=number),
                helper.make_node("Erf", node.input, [of]),
                helper.make_node("Sub", [one, of], node.output, name=node.name),
            ]
        del graph.node[:]
        graph.node.extend(nodes)


def _shown(error: Exception) -> str:
    """Return a checker's fault in one line, with a way out."""
    found = re.search(r"No Op registered for (\w+) .* Name: (\S*) OpType", str(error), re.DOTALL)
    if found is None:
        return f"{str(error).strip()}; export it again"
    operator, node = found.groups()
    return (
        f"{operator!r}, of node {node!r}, is no operator of its opset; put another layer there, or "
        "export it by another tool or opset"
    )


def _told(data: bytes, fault: str) -> str:
    """Return the fault of a file that looks like ONNX, or that it does not."""
    return f"model: {fault}" if data[:1] == _FIRST_BYTE else _not_onnx(data)


def domains_of(data: bytes) -> frozenset[str]:
    """Return the operator domains that a file of this house imports: those it was allowed once."""
    return STANDARD_DOMAINS | {entry.domain for entry in onnx.load_from_string(data).opset_import}


def check(data: bytes, domains: frozenset[str] = STANDARD_DOMAINS) -> ModelProto:
    """Hold finished bytes to all rules, versions included; return the model."""
    model = read_model(data, domains, exported=True)
    if model.ir_version > MAX_IR_VERSION or opset_of(model) > MAX_OPSET:
        raise ModelFileError(
            f"model: IR version {model.ir_version} and opset {opset_of(model)} exceed "
            f"{MAX_IR_VERSION} and {MAX_OPSET}; import it as a backbone, which converts it"
        )
    return model


def _not_onnx(data: bytes) -> str:
    return (
        f"model: {len(data)} bytes beginning with {data[:8]!r} are no ONNX model; give the .onnx "
        "file itself"
    )
