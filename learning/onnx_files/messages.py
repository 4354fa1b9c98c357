"""The messages of an ONNX file: their fields, and which of them a model of this fleet may have.

Numbers and names are those of onnx.proto up to IR version 11. A field that is not listed here is
refused, so what a later version of ONNX adds has to be looked at before devices take it.
"""

from __future__ import annotations

from typing import NamedTuple

from fleetledger.learning.onnx_files.wire import FIXED32, FIXED64, LENGTH, VARINT


class Field(NamedTuple):
    """One field of a message."""

    name: str
    wire: int = LENGTH
    repeated: bool = False
    message: str = ""
    """Name of the message inside; empty for texts, bytes and messages that nobody looks into."""
    banned: str = ""
    """Why no model may have it, in words that finish "holds ..."."""


def _many(name: str, message: str = "", wire: int = LENGTH) -> Field:
    return Field(name, wire, repeated=True, message=message)


def _number(name: str) -> Field:
    return Field(name, VARINT)


_ELSEWHERE = (
    "data in another file; save the model as one file: torch.onnx.export(..., "
    "external_data=False), or onnx.save(onnx.load(FILE), ONE_FILE)"
)
_FUNCTIONS = (
    "local functions; inline them: `import onnx.inliner`, then "
    "onnx.save(onnx.inliner.inline_local_functions(onnx.load(FILE)), ONE_FILE)"
)
_MAP = (
    "a map; export it with tensors only (skl2onnx: options={'zipmap': False}; "
    "onnxmltools: zipmap=False)"
)
_DEVICES = "settings of devices; export it without"
_SPARSE = "a sparse tensor, whose size no data bounds; export it dense"
_DOCUMENT, _METADATA = Field("doc_string"), _many("metadata_props")

MESSAGES: dict[str, dict[int, Field]] = {
    "model": {
        1: _number("ir_version"),
        2: Field("producer_name"),
        3: Field("producer_version"),
        4: Field("domain"),
        5: _number("model_version"),
        6: _DOCUMENT,
        7: Field("graph", message="graph"),
        8: _many("opset_import", "opset"),
        14: _METADATA,
        20: Field("training_info", banned="training information; export it for inference"),
        25: Field("functions", banned=_FUNCTIONS),
        26: Field("configuration", banned=_DEVICES),
    },
    "opset": {1: Field("domain"), 2: _number("version")},
    "graph": {
        1: _many("node", "node"),
        2: Field("name"),
        5: _many("initializer", "tensor"),
        10: _DOCUMENT,
        11: _many("input", "value"),
        12: _many("output", "value"),
        13: _many("value_info", "value"),
        14: _many("quantization_annotation"),
        15: Field("sparse_initializer", banned=_SPARSE),
        16: _METADATA,
    },
    "node": {
        1: _many("input"),
        2: _many("output"),
        3: Field("name"),
        4: Field("op_type"),
        5: _many("attribute", "attribute"),
        6: _DOCUMENT,
        7: Field("domain"),
        8: Field("overload", banned=_FUNCTIONS),
        9: _METADATA,
        10: Field("device_configurations", banned=_DEVICES),
    },
    "attribute": {
        1: Field("name"),
        2: Field("f", FIXED32),
        3: _number("i"),
        4: Field("s"),
        5: Field("t", message="tensor"),
        6: Field("g", message="graph"),
        7: _many("floats", wire=FIXED32),
        8: _many("ints", wire=VARINT),
        9: _many("strings"),
        10: _many("tensors", "tensor"),
        11: _many("graphs", "graph"),
        13: _DOCUMENT,
        14: Field("tp", message="type"),
        15: _many("type_protos", "type"),
        20: _number("type"),
        21: Field("ref_attr_name", banned=_FUNCTIONS),
        22: Field("sparse_tensor", banned=_SPARSE),
        23: Field("sparse_tensors", banned=_SPARSE),
    },
    "tensor": {
        1: _many("dims", wire=VARINT),
        2: _number("data_type"),
        3: Field("segment", banned="a tensor in segments; save it in one piece"),
        4: _many("float_data", wire=FIXED32),
        5: _many("int32_data", wire=VARINT),
        6: _many("string_data"),
        7: _many("int64_data", wire=VARINT),
        8: Field("name"),
        9: Field("raw_data"),
        10: _many("double_data", wire=FIXED64),
        11: _many("uint64_data", wire=VARINT),
        12: _DOCUMENT,
        13: Field("external_data", banned=_ELSEWHERE),
        14: _number("data_location"),
        16: _METADATA,
    },
    "value": {1: Field("name"), 2: Field("type", message="type"), 3: _DOCUMENT, 4: _METADATA},
    "type": {
        1: Field("tensor_type", message="tensor_type"),
        4: Field("sequence_type", message="sequence_type"),
        5: Field("map_type", banned=_MAP),
        6: Field("denotation"),
        7: Field("opaque_type", banned="an opaque type; export it with tensors only"),
        8: Field("sparse_tensor_type", banned=_SPARSE),
        9: Field("optional_type", message="optional_type"),
    },
    "sequence_type": {1: Field("elem_type", message="type")},
    "optional_type": {1: Field("elem_type", message="type")},
    "tensor_type": {1: _number("elem_type"), 2: Field("shape", message="shape")},
    "shape": {1: _many("dim", "dimension")},
    "dimension": {1: _number("dim_value"), 2: Field("dim_param"), 3: Field("denotation")},
}
