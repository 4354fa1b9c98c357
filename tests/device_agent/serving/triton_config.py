"""Triton's configuration as its documentation has it: the fields that are used here, no others.

Field names and types are those of ModelConfig in protobuf/model_config.proto of
https://github.com/triton-inference-server/common; numbers mean nothing in the text form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

_Field = descriptor_pb2.FieldDescriptorProto
_STRING, _INT32, _INT64 = _Field.TYPE_STRING, _Field.TYPE_INT32, _Field.TYPE_INT64
_MESSAGES: dict[str, dict[str, Any]] = {
    "ModelConfig": {
        "name": _STRING,
        "platform": _STRING,
        "max_batch_size": _INT32,
        "input": ["ModelInput"],
        "output": ["ModelOutput"],
        "instance_group": ["ModelInstanceGroup"],
        "ensemble_scheduling": "ModelEnsembling",
    },
    "ModelInput": {"name": _STRING, "data_type": ("DataType",), "dims": [_INT64]},
    "ModelOutput": {
        "name": _STRING,
        "data_type": ("DataType",),
        "dims": [_INT64],
        "label_filename": _STRING,
    },
    "ModelInstanceGroup": {"count": _INT32, "kind": ("Kind",)},
    "ModelEnsembling": {"step": ["Step"]},
    "Step": {
        "model_name": _STRING,
        "model_version": _INT64,
        "input_map": ["Entry"],
        "output_map": ["Entry"],
    },
    "Entry": {"key": _STRING, "value": _STRING},
}
_ENUMS = {
    "DataType": ("TYPE_INVALID", "TYPE_INT32", "TYPE_INT64", "TYPE_FP16", "TYPE_FP32", "TYPE_FP64"),
    "Kind": ("KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"),
}


def read_config(file: Path) -> Any:
    """Return a `config.pbtxt` as a message; raise `ParseError` for a field that Triton lacks."""
    return text_format.Parse(file.read_text(encoding="utf-8"), _message_class()())


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="model_config.proto", package="triton")
    file.syntax = "proto3"
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), start=1):
            _add(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("triton.ModelConfig"))


def _add(message: Any, name: str, number: int, kind: Any) -> None:
    added = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if isinstance(kind, list):
        added.label, (kind,) = _Field.LABEL_REPEATED, kind
    if isinstance(kind, str):
        added.type, added.type_name = _Field.TYPE_MESSAGE, f".triton.{kind}"
    elif isinstance(kind, tuple):
        added.type, added.type_name = _Field.TYPE_ENUM, f".triton.{kind[0]}"
    else:
        added.type = kind
