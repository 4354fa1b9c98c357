"""Torch modules as ONNX, by torch's exporter: torchvision's backbones, and bodies from outside.

A module in a network becomes nodes of the network's graph. What ONNX Runtime makes of the whole
trunk is compared with torch's features on noise, as it is for backbones. Needs torch.
"""

from __future__ import annotations

import inspect
import io
import math
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from onnx import ModelProto
from torch import Tensor, nn
from torch.nn import functional

from fleetledger.export.builder import GraphBuilder
from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.graph import BATCH, clean, nested_graphs, prefix_names
from fleetledger.export.noise import noise_inputs
from fleetledger.export.rules import read_model
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.module_source import ModuleSource
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.learning.networks.torch_modules import module_with
from fleetledger.learning.onnx_files.file_rules import MAX_MODEL_BYTES
from fleetledger.runtime.errors import cut
from fleetledger.schemas.models import FEATURES, AnyPreprocessing

OPSET = 17
"""The first with layer normalisation, the last that torch's exporter writes without helpers."""
TOLERANCE = 1e-4
"""Of the largest feature. The quantisation's steps are 1/127 of it, 80 times as wide."""
SAMPLES = 8
_INPUT, _OUTPUT = "inputs", "outputs"

Arrays = Mapping[str, npt.NDArray[Any]]


def exported(
    module: nn.Module, shape: tuple[int, ...], name: str, ends: tuple[str, str] = (_INPUT, _OUTPUT)
) -> ModelProto:
    """Return a module in use as a clean model with a free batch axis, batch norms folded in.

    `ends` name its input (N, *shape) and its output. Raises `ModelFileError` where torch cannot
    write it, or it is larger than a file may be.
    """
    size = sum(parameter.nbytes for parameter in module.parameters())
    if size > MAX_MODEL_BYTES:
        raise ModelFileError(
            f"model: the weights of {name} are {size} bytes, more than {MAX_MODEL_BYTES}; export "
            "a smaller network"
        )
    buffer: Any = io.BytesIO()  # torch declares paths only
    try:
        # With gradients enabled, because without them torch takes a kernel for attention that it
        # cannot write. The warnings are about this exporter's age and about sizes taken as fixed,
        # as they are meant to be. Of a layer that it cannot write it prints the whole graph.
        with torch.enable_grad(), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                (torch.zeros(2, *shape),),
                buffer,
                input_names=[ends[0]],
                output_names=[ends[1]],
                dynamic_axes={end: {0: BATCH} for end in ends},
                opset_version=OPSET,
                **_exporter(),
            )
    except RuntimeError as error:
        raise ModelFileError(
            f"model: torch {torch.__version__} cannot write {name} as ONNX "
            f"({cut(str(error).partition(chr(10))[0], 200)}); put another layer there, or export "
            "it yourself and use import-backbone"
        ) from error
    return clean(read_model(buffer.getvalue()))


def add_module(graph: GraphBuilder, body: ModuleSource, arrays: Arrays, source: str) -> str:
    """Add the nodes of a module with a network's tensors; return the name of its features."""
    part = exported(module_with(body, arrays), body.shape, f"network {body.name!r}").graph
    prefix = f"{graph.prefix}module/"
    prefix_names(part, prefix, frozenset())
    for inner in nested_graphs(part):
        for node in inner.node:
            node.input[:] = [source if name == prefix + _INPUT else name for name in node.input]
    graph.nodes.extend(part.node)
    graph.constants.extend(part.initializer)
    return prefix + _OUTPUT


def module_features(
    body: ModuleSource, arrays: Arrays, values: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """Return what torch makes of inputs (n, *shape) in use, in float32."""
    with torch.no_grad():
        made: Tensor = module_with(body, arrays)(torch.from_numpy(values.astype(np.float32)))
    features: npt.NDArray[np.float64] = made.numpy().astype(np.float64)
    return features


def require_trunk_parity(
    network: Network, arrays: Arrays, trunk: bytes, preprocessing: AnyPreprocessing
) -> float:
    """Return how far ONNX Runtime is from torch behind the trunk, as a share of the largest value.

    Raises `ParityError` above `TOLERANCE`.
    """
    inputs = noise_inputs(preprocessing, SAMPLES)
    found = LoadedModel(trunk).run({preprocessing.input_name: inputs})[FEATURES]
    with torch.no_grad():
        outputs = forward(network, *to_tensors(arrays), torch.from_numpy(inputs), Mode())
        rows = outputs.row_inputs
        behind = functional.normalize(rows) if network.head == "cosine" else rows
    # A column of ones, by which a bias is multiplied, comes last.
    difference = relative_difference(found[:, : behind.shape[1]], behind.numpy())
    if not difference <= TOLERANCE:
        raise ParityError(
            f"difference: {difference:.2g} of the largest feature on {SAMPLES} samples of noise "
            f"exceeds {TOLERANCE:.2g}; a layer of {_name_of(network)} is not in ONNX what it is in "
            "torch, or it chooses by values: put another one there"
        )
    return difference


def relative_difference(
    features: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]
) -> float:
    """Return the largest difference as a share of the largest expected feature; NaN stays NaN.

    Features that are all zero differ by 0 if both are, else by infinity.
    """
    if features.shape != expected.shape:
        return math.inf
    difference, largest = np.abs(features - expected).max(), np.abs(expected).max()
    if largest == 0:
        return 0.0 if difference == 0 else math.inf
    return float(difference / largest)


def _name_of(network: Network) -> str:
    return repr(network.body.name) if isinstance(network.body, ModuleSource) else "the network"


def _exporter() -> dict[str, Any]:
    """Choose the exporter that needs no further package, where torch offers a choice."""
    return {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
