"""A torchvision classification network becomes a backbone: ONNX file and preprocessing.

Build the network, cut its classifier off, load the weights, write ONNX, take that in as any other
backbone, and compare: torch's features against ONNX Runtime's on the same pictures. Equal weights
and versions of torch give equal bytes. Needs torch and torchvision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import NetworkExportError, ParityError
from fleetledger.export.graph import write
from fleetledger.export.noise import noise_inputs
from fleetledger.export.output_file import write_described
from fleetledger.export.preprocessing_file import preprocessing_toml
from fleetledger.export.runtime import LoadedModel, describe_runtime
from fleetledger.export.torch_module import (
    SAMPLES,
    TOLERANCE,
    exported,
    relative_difference,
)
from fleetledger.export.torchvision_network import (
    INPUT_NAME,
    FeatureNetwork,
    build_network,
    find_recipe,
    sized,
)
from fleetledger.export.torchvision_weights import load_weights
from fleetledger.schemas.models import Preprocessing

PICTURES = SAMPLES
_OUTPUT_NAME = "pooled"
_Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TorchvisionRequest:
    """Which network, with which weights, for pictures of which size."""

    network: str
    """torchvision's name, such as `mobilenet_v2`."""
    weights: Path | None
    """A state dict; None for random weights."""
    size: int | None = None
    """Pixels along a side; None for those of the published weights."""
    seed: int | None = None
    """Of random weights, and of them only; 0 if absent."""

    def __post_init__(self) -> None:
        """Refuse a seed that would change nothing."""
        if self.weights is not None and self.seed is not None:
            raise NetworkExportError(
                f"seed: {self.seed} has no meaning with weights from {self.weights}; leave it out"
            )


@dataclass(frozen=True)
class TorchvisionBackbone:
    """An exported network that `import_backbone` takes and that keeps to torch's features."""

    model: bytes = field(repr=False)
    preprocessing: Preprocessing
    feature_width: int
    recipe: str
    """What torchvision calls the weights whose preprocessing this is."""
    difference: float
    """Largest difference to torch's features, as a share of the largest feature."""

    def facts(self) -> tuple[str, ...]:
        """Return what the person at the keyboard wants to know, a sentence a line."""
        given = self.preprocessing
        return (
            f"{self.feature_width} features from {given.size[0]} x {given.size[1]} pixels, "
            f"{len(self.model):,} bytes",
            f"preprocessing of torchvision's {self.recipe}: shorter side to {given.shorter_side}, "
            f"the middle cut out, {given.interpolation}",
            f"parity on {PICTURES} pictures: {describe_runtime()} differs from torch "
            f"{torch.__version__} by at most {self.difference:.1e} of the largest feature",
        )

    def write_to(self, path: Path) -> Path:
        """Write the model to `path` and the preprocessing beside it; return the latter's path.

        Files that are there are replaced. Raises `OutputFileError`.
        """
        beside = path.with_suffix(".toml")
        write_described(path, self.model, beside, preprocessing_toml(self.preprocessing))
        return beside


def export_torchvision(
    request: TorchvisionRequest, tolerance: float = TOLERANCE
) -> TorchvisionBackbone:
    """Export the network without its classifier: images in, pooled features out.

    Raises `NetworkExportError`, `WeightsError` or `ModelFileError` naming what is wrong, and
    `ParityError` if ONNX Runtime's features differ from torch's by more than `tolerance` times the
    largest.
    """
    recipe = find_recipe(request.network, request.weights.name if request.weights else "")
    size = recipe.crop if request.size is None else request.size
    network = build_network(request.network, size, request.seed or 0)
    preprocessing = recipe.preprocessing(size)
    if request.weights is not None:
        load_weights(network, request.weights)
    inputs = noise_inputs(preprocessing, PICTURES)
    expected = torch_features(network, inputs)
    model = to_onnx(network)
    imported = import_backbone(model, preprocessing)
    features = LoadedModel(imported.model).run({INPUT_NAME: inputs})
    difference = relative_difference(next(iter(features.values())), expected)
    if not difference <= tolerance:
        raise ParityError(
            f"difference: {difference:.2g} of the largest feature on {PICTURES} pictures exceeds "
            f"{tolerance:.2g}; weights with huge or tiny values do that: check where they come from"
        )
    return TorchvisionBackbone(
        model, preprocessing, imported.feature_width, recipe.name, difference
    )


def torch_features(network: FeatureNetwork, inputs: _Features) -> _Features:
    """Return what torch computes for preprocessed pictures (N, 3, size, size): (N, width)."""
    with torch.no_grad(), sized(network.name, network.size):
        features: _Features = network.module(torch.from_numpy(inputs)).numpy()
    return features


def to_onnx(network: FeatureNetwork) -> bytes:
    """Return the network as a clean ONNX file with a free batch axis, batch norms folded in."""
    shape, ends = (3, network.size, network.size), (INPUT_NAME, _OUTPUT_NAME)
    return write(exported(network.module, shape, network.name, ends))
