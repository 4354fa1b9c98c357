"""INT8: a backbone whose convolutions and products are of 8-bit integers, with measured ranges.

The quantisation is ONNX Runtime's own: static, `QuantizeLinear` and `DequantizeLinear` around each
operator (QDQ), weights as signed integers with a scale for each channel, activations as unsigned
ones with a scale for each tensor. Processors compute that fast; TensorRT takes signed and
symmetric ones alone, so a GPU has the variant in half precision.

What holds for MobileNetV2, where a scale for each tensor is known to lose much:

- A range is the mean of the ranges of single images, so that one odd image does not stretch it.
- The first convolutions stay float32: they are a small part of the work, and most of the loss.

Equal arguments give equal bytes, with one version of ONNX Runtime and of ONNX.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
from onnx import ModelProto, helper

from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import opset_of
from fleetledger.export.runtime import runtime_tools

Samples = npt.NDArray[Any]
FLOAT_CONVOLUTIONS = 3
"""The first ones, which stay float32."""
_LEAST_OPSET = 13
"""From here on `QuantizeLinear` knows a scale for each channel."""
_RANGES_AT_ONCE = 64


def quantised(backbone: ModelProto, input_name: str, samples: Samples) -> ModelProto:
    """Return the backbone in 8-bit integers, with ranges measured on preprocessed samples.

    Raises `ModelFileError` where ONNX Runtime cannot quantise it, or finds nothing to.
    """
    quantization = runtime_tools("quantization")
    model = _prepared(backbone)
    with tempfile.TemporaryDirectory(prefix="fleetledger-variant-") as folder, _silent():
        prepared, made = Path(folder, "prepared.onnx"), Path(folder, "int8.onnx")
        try:
            quantization.quant_pre_process(model, prepared, skip_symbolic_shape=True)
            quantization.quantize_static(
                prepared,
                made,
                _reader(quantization, input_name, samples),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
                calibrate_method=quantization.CalibrationMethod.MinMax,
                nodes_to_exclude=stay_float(onnx.load(prepared)),
                extra_options={
                    "CalibMovingAverage": True,
                    "CalibMaxIntermediateOutputs": _RANGES_AT_ONCE,
                },
            )
        except Exception as error:  # its exceptions share no narrower base
            raise ModelFileError(f"int8: the backbone cannot be quantised: {error}") from error
        result = onnx.load(made)
    if not any(node.op_type == "QuantizeLinear" for node in result.graph.node):
        raise ModelFileError(
            "int8: the backbone has no convolution or product of matrices that could be quantised; "
            "leave int8 out"
        )
    return result


def stay_float(model: ModelProto) -> list[str]:
    """Return the nodes that are not quantised: all before the first convolution that is.

    None of a network with no more convolutions than these.
    """
    nodes = list(model.graph.node)
    places = [place for place, node in enumerate(nodes) if node.op_type == "Conv"]
    if len(places) <= FLOAT_CONVOLUTIONS:
        return []
    return [node.name for node in nodes[: places[FLOAT_CONVOLUTIONS]]]


def _prepared(backbone: ModelProto) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(backbone)
    if opset_of(model) < _LEAST_OPSET:
        try:
            model = onnx.version_converter.convert_version(model, _LEAST_OPSET)
        except Exception as error:  # the converter raises RuntimeError and others of its own
            raise ModelFileError(
                f"int8: opset {opset_of(backbone)} cannot be converted to {_LEAST_OPSET} "
                f"({error}); export the backbone again with a higher one"
            ) from error
    helper.set_model_props(model, {"onnx.infer": "fleetledger"})
    return model


def _reader(quantization: Any, input_name: str, samples: Samples) -> Any:  # noqa: ANN401 - untyped
    """Return what gives ONNX Runtime one sample after the other; its base has no types."""

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = iter(samples)

        def get_next(self) -> dict[str, Samples] | None:
            sample = next(self._left, None)
            return None if sample is None else {input_name: sample[None]}

    return Reader()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep its progress and its advice from the operator's terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
