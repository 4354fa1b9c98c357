"""Tensors by the Open Inference Protocol, version 2 (https://github.com/kserve/open-inference-protocol).

JSON only: binary tensor data is an extension that this program does not name among its own.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from fleetledger.device_agent.core.standing_problems import UNANSWERED
from fleetledger.device_agent.models.inference.answers import Tensors
from fleetledger.device_agent.models.inference.installed_model import Inputs
from fleetledger.device_agent.models.inference.loaded import LeasedModel
from fleetledger.learning.errors import SampleError
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.installed_version import installed_version
from fleetledger.schemas.models import PROBABILITIES, SCORES

NAME = "active"
"""The model's name there; its version is the fleet's."""
MOST_ROWS = 64
MOST_NUMBERS = 4_000_000
"""Numbers of a request: 26 pictures of 224 x 224 pixels in colour."""
_MOST_RANK = 5
_LOOSE = 1000
"""Marks of JSON that a request has beside its numbers."""


class _Loose(BaseModel):
    """What other programs write may have more than is asked."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class InputTensor(_Loose):
    """A tensor of a request; `data` is flat or nested, row by row."""

    name: str = Field(max_length=200)
    shape: tuple[int, ...] = Field(min_length=1, max_length=_MOST_RANK)
    datatype: Literal["FP32", "INT64"]
    data: list[Any]


class InferRequest(_Loose):
    """Inputs as the model takes them: preprocessed, the first axis is the batch."""

    id: str | None = Field(default=None, max_length=200)
    inputs: tuple[InputTensor, ...] = Field(min_length=1, max_length=1)


class OutputTensor(_Loose):
    """A tensor of an answer, flat, row by row."""

    name: str
    shape: tuple[int, ...]
    datatype: str
    data: list[float | None]
    """None for what is no finite number."""


class InferResponse(_Loose):
    """What the model made of the inputs."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, str] | None = None
    """By `error_ROW`, why that row of the batch has no answer."""
    outputs: tuple[OutputTensor, ...]


class TensorMetadata(_Loose):
    """A tensor that the model takes or gives; -1 is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class ModelMetadata(_Loose):
    """What the protocol says of a model."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


def server_metadata() -> dict[str, Any]:
    """Return what the protocol says of a server."""
    return {"name": "fleetledger", "version": installed_version(), "extensions": []}


def metadata_of(model: LeasedModel) -> ModelMetadata:
    """Return what the protocol says of the active model."""
    manifest = model.manifest
    spec = manifest.preprocessing
    classes = len(manifest.class_names) or -1
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "sample": {SCORES: (-1, classes), PROBABILITIES: (-1, classes)},
        "pixels": {SCORES: (-1, classes, -1, -1)},
        "raw": {SCORES: (-1, *(manifest.output_shape or ()))},
    }
    return ModelMetadata(
        name=NAME,
        versions=(str(manifest.version),),
        platform="onnx_onnxruntime",
        inputs=(
            TensorMetadata(name=spec.input_name, datatype=_datatype(model), shape=_shape_of(model)),
        ),
        outputs=tuple(
            TensorMetadata(name=name, datatype="FP32", shape=shape)
            for name, shape in shapes[manifest.answers].items()
        ),
    )


def check_size(model: LeasedModel, body: bytes) -> None:
    """Refuse a body that has more in it than a request can, before it is parsed.

    Parsed, each number takes some forty bytes and each list sixty. Raises `SampleError`.
    """
    numbers = math.prod(model.manifest.preprocessing.shape)
    most = min(MOST_NUMBERS, MOST_ROWS * numbers)
    found = body.count(b",") + body.count(b"[") + body.count(b"{") + body.count(b":")
    if found > 2 * most + _LOOSE:
        raise SampleError(
            f"body: more than the {count_of(most, 'number')} that a request may have; give fewer "
            "rows"
        )


def infer(model: LeasedModel, request: InferRequest) -> InferResponse:
    """Return a model's answer to tensors; raise `SampleError`, `LoadError`."""
    tensors = model.tensors(_array(model, request.inputs[0]))
    return InferResponse(
        model_name=NAME,
        model_version=str(model.manifest.version),
        id=request.id,
        parameters=_errors(tensors) or None,
        outputs=tuple(_output(name, value) for name, value in tensors.items()),
    )


def _array(model: LeasedModel, tensor: InputTensor) -> Inputs:
    wanted, expected = model.manifest.preprocessing.input_name, _shape_of(model)
    if tensor.name != wanted:
        raise SampleError(f"inputs: {tensor.name!r} is none of this model's; give {wanted!r}")
    if tensor.datatype != _datatype(model):
        raise SampleError(f"{wanted}: datatype {tensor.datatype}; give {_datatype(model)}")
    fits = len(tensor.shape) == len(expected) and all(
        size in (given, -1) for size, given in zip(expected, tensor.shape, strict=True)
    )
    if not fits or not all(0 < size <= 1 << 16 for size in tensor.shape):
        raise SampleError(f"{wanted}: shape {list(tensor.shape)}; give {list(expected)}")
    if tensor.shape[0] > MOST_ROWS:
        raise SampleError(f"{wanted}: {count_of(tensor.shape[0], 'row')}; give at most {MOST_ROWS}")
    try:
        array = np.asarray(tensor.data, np.int64 if tensor.datatype == "INT64" else np.float32)
    except (ValueError, TypeError, OverflowError) as error:
        raise SampleError(f"{wanted}: data that is not of one shape, or no numbers") from error
    if array.size != math.prod(tensor.shape):
        raise SampleError(
            f"{wanted}: {count_of(array.size, 'number')} for shape {list(tensor.shape)}"
        )
    if not np.isfinite(array).all():
        raise SampleError(f"{wanted}: a value that is not finite")
    return array.reshape(tensor.shape)


def _output(name: str, value: npt.NDArray[Any]) -> OutputTensor:
    return OutputTensor(
        name=name,
        shape=value.shape,
        datatype="FP32",
        data=[number if math.isfinite(number) else None for number in value.ravel().tolist()],
    )


def _errors(tensors: Tensors) -> dict[str, str]:
    """Return why rows have no answer that JSON can carry."""
    rows = {
        int(row)
        for value in tensors.values()
        for row in np.flatnonzero(~np.isfinite(value.reshape(len(value), -1)).all(axis=1))
    }
    return {f"error_{row}": UNANSWERED for row in sorted(rows)}


def _datatype(model: LeasedModel) -> str:
    return "INT64" if model.manifest.preprocessing.dtype == "int64" else "FP32"


def _shape_of(model: LeasedModel) -> tuple[int, ...]:
    return (-1, *model.manifest.preprocessing.shape)
