"""MobileNetV2 of width 1.0 as an ONNX feature extractor, without torch.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018, table 2; layer
names and defaults are torchvision's, batch norm is folded into the convolutions. Images
(N, 3, size, size) in, 1280 pooled features out.

The value behind a module is called as the module in torchvision: `features.16` is what the block
puts out, `features.16.conv.1` what its depthwise convolution does, clipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from fleetledger.export.builder import GraphBuilder, float_value
from fleetledger.export.errors import NetworkExportError, WeightsError
from fleetledger.export.graph import BATCH
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import Preprocessing

WIDTH = 1280
INPUT_NAME = "image"
_EPSILON = 1e-5
_STEM = 32
_BLOCKS = (  # expansion, channels, repeats, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Convolution:
    """A convolution with its batch norm; names as in torchvision's state dict."""

    name: str
    norm: str
    channels_in: int
    channels_out: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1
    clipped: bool = True
    """Followed by ReLU6."""


@dataclass(frozen=True)
class NetworkBlock:
    """Convolutions in a row, with a shortcut around them where shapes allow."""

    convolutions: tuple[Convolution, ...]
    shortcut: bool = False


def blocks() -> Iterator[NetworkBlock]:
    """Yield the network from stem to last convolution."""
    yield NetworkBlock((_clipped("features.0", 3, _STEM, kernel=3, stride=2),))
    channels, number = _STEM, 1
    for expansion, wide, repeats, stride in _BLOCKS:
        for repeat in range(repeats):
            step = stride if repeat == 0 else 1
            yield _inverted_residual(f"features.{number}.conv", channels, wide, expansion, step)
            channels, number = wide, number + 1
    yield NetworkBlock((_clipped(f"features.{number}", channels, WIDTH),))


def random_weights(seed: int = 0) -> dict[str, _Floats]:
    """Return seeded random weights by name, scaled so that signals neither die nor grow."""
    generator = np.random.default_rng(seed)
    weights: dict[str, _Floats] = {}
    for convolution in (part for block in blocks() for part in block.convolutions):
        shape = _weight_shape(convolution)
        spread = np.sqrt(2 / np.prod(shape[1:]))
        weights[f"{convolution.name}.weight"] = generator.normal(0, spread, shape).astype("float32")
        for field, value in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1)):
            name = f"{convolution.norm}.{field}"
            weights[name] = np.full(convolution.channels_out, value, np.float32)
    return weights


def load_weights(path: Path) -> dict[str, _Floats]:
    """Read a safetensors file of any float type as float32; raise `WeightsError`."""
    try:
        tensors = safetensors.numpy.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise WeightsError(
            f"weights: {path}: cannot be read: {error}; give a .safetensors file"
        ) from error
    lacking = sorted(random_weights().keys() - tensors.keys())
    if lacking:
        raise WeightsError(
            f"weights: {path} lacks {count_of(len(lacking), 'tensor')} such as {lacking[0]!r}; "
            "give the state dict of torchvision's mobilenet_v2"
        )
    return {name: np.asarray(tensor, np.float32) for name, tensor in tensors.items()}


def build_mobilenet_v2(size: int, weights: Mapping[str, _Floats]) -> bytes:
    """Return the ONNX model for images of `size` pixels along a side.

    Raises `NetworkExportError` for a size of which nothing is left to pool.
    """
    if size < 32:
        raise NetworkExportError(
            f"size: {size} leaves no pixel to pool; give for example 112 or 224"
        )
    builder = GraphBuilder()
    builder.constant("lowest", 0, np.float32)
    builder.constant("highest", 6, np.float32)
    values = INPUT_NAME
    for block in blocks():
        start, module = values, _module(block)
        for convolution in block.convolutions[:-1]:
            output = convolution.name.removesuffix(".0")
            values = _add_convolution(builder, convolution, values, weights, output)
        last = block.convolutions[-1]
        ends = last.name if block.shortcut else module
        values = _add_convolution(builder, last, values, weights, ends)
        if block.shortcut:
            values = builder.add("Add", start, values, output=module)
    pooled = builder.add("GlobalAveragePool", values)
    builder.add("Flatten", pooled, output="pooled", axis=1)
    return builder.model(
        [float_value(INPUT_NAME, BATCH, 3, size, size)], [float_value("pooled", BATCH, WIDTH)]
    )


def imagenet_preprocessing(size: int) -> Preprocessing:
    """Return how torchvision's weights expect their images, at `size` pixels."""
    return Preprocessing(
        mode="RGB",
        size=(size, size),
        interpolation="bilinear",
        resize="shorter_side_crop",
        shorter_side=size * 8 // 7,
        mean=(0.485, 0.456, 0.406),
        deviation=(0.229, 0.224, 0.225),
        input_name=INPUT_NAME,
    )


def _clipped(name: str, channels: int, wide: int, kernel: int = 1, stride: int = 1) -> Convolution:
    return Convolution(f"{name}.0", f"{name}.1", channels, wide, kernel, stride)


def _inverted_residual(
    name: str, channels: int, wide: int, expansion: int, stride: int
) -> NetworkBlock:
    inner = channels * expansion
    expand = () if expansion == 1 else (_clipped(f"{name}.0", channels, inner),)
    place = len(expand)
    spread = Convolution(
        f"{name}.{place}.0", f"{name}.{place}.1", inner, inner, 3, stride, groups=inner
    )
    narrow = Convolution(f"{name}.{place + 1}", f"{name}.{place + 2}", inner, wide, clipped=False)
    return NetworkBlock((*expand, spread, narrow), shortcut=stride == 1 and channels == wide)


def _weight_shape(convolution: Convolution) -> tuple[int, int, int, int]:
    kernel, per_group = convolution.kernel, convolution.channels_in // convolution.groups
    return (convolution.channels_out, per_group, kernel, kernel)


def fold(convolution: Convolution, weights: Mapping[str, _Floats]) -> tuple[_Floats, _Floats]:
    """Return weight and bias with the batch norm of evaluation folded in, computed in float64."""
    gain, shift, mean, variance = (
        weights[f"{convolution.norm}.{field}"].astype(np.float64)
        for field in ("weight", "bias", "running_mean", "running_var")
    )
    factor = gain / np.sqrt(variance + _EPSILON)
    weight = weights[f"{convolution.name}.weight"].reshape(_weight_shape(convolution))
    folded = weight * factor[:, None, None, None]
    return folded.astype(np.float32), (shift - mean * factor).astype(np.float32)


def _module(block: NetworkBlock) -> str:
    """Return the name of a block in torchvision, such as `features.16`."""
    return ".".join(block.convolutions[0].name.split(".")[:2])


def _add_convolution(
    builder: GraphBuilder,
    convolution: Convolution,
    values: str,
    weights: Mapping[str, _Floats],
    output: str,
) -> str:
    weight, bias = fold(convolution, weights)
    margin = convolution.kernel // 2
    result = builder.add(
        "Conv",
        values,
        builder.constant(f"{convolution.name}.weight", weight, np.float32),
        builder.constant(f"{convolution.name}.bias", bias, np.float32),
        group=convolution.groups,
        kernel_shape=[convolution.kernel] * 2,
        pads=[margin] * 4,
        strides=[convolution.stride] * 2,
        output=None if convolution.clipped else output,
    )
    if not convolution.clipped:
        return result
    return builder.add("Clip", result, "lowest", "highest", output=output)
