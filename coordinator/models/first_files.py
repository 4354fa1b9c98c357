"""Files that a network may begin with: tensors, first weights, and images that all devices get."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.coordinator.models.pixel_networks import with_trunk
from fleetledger.export.model_file import read_bounded
from fleetledger.learning.errors import ImageError
from fleetledger.learning.networks.network import AnyNetwork
from fleetledger.learning.numerics.preprocessing import sized_pixels
from fleetledger.methods.training.exchange import SHARED
from fleetledger.methods.training.network_weights import Arrays, encode_weights
from fleetledger.methods.training.sides import AnyTrainingAssignment, AnyTrainingCoordinator
from fleetledger.schemas.models import AnyPreprocessing, Preprocessing
from fleetledger.schemas.values import ClassName

IMAGES = "images"
"""The array of a file with shared images: uint8, (N, height, width, 3) or (N, height, width)."""

Images = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FirstFiles:
    """What the operator gives beside the settings; None where nothing is."""

    weights: Path | None = None
    """Parameters and buffers with the rows of a head, as `training.network_weights` writes them."""
    trunk: Path | None = None
    """A state dict that a network of pixels takes its trunk from; the rest begins by its seed."""
    public_images: Path | None = None
    """An .npz file with the array `images`."""


@dataclass(frozen=True)
class FirstWeights:
    """What a network begins with, and the rows that its head has."""

    data: bytes
    class_names: tuple[ClassName, ...]


def first_weights(
    side: AnyTrainingCoordinator, assignment: AnyTrainingAssignment, first: FirstFiles
) -> FirstWeights:
    """Return the weights in a file, or those of nobody's training where there is none.

    Raises `NetworkSettingsError` where files do not go together, `ModelFileError` where one
    cannot be read, the method's `ContributionError` or `learning.errors.NetworkError` where it is
    not of its network.
    """
    if first.weights is None:
        data = side.first_weights(assignment)
        if first.trunk is None:
            return FirstWeights(data, ())
        network, arrays, names = side.network_of(assignment, data)
        return FirstWeights(encode_weights(with_trunk(network, arrays, first.trunk), names), names)
    if first.trunk is not None:
        raise NetworkSettingsError(
            f"trunk: {first.trunk} given beside {first.weights}, which holds a trunk; leave "
            "--trunk or --first-weights out"
        )
    data = read_bounded(first.weights, "weights of this network")
    _, _, names = side.network_of(assignment, data)
    return FirstWeights(data, names)


def extras_of(
    side: AnyTrainingCoordinator,
    assignment: AnyTrainingAssignment,
    file: Path | None,
    preprocessing: AnyPreprocessing,
) -> Mapping[str, bytes]:
    """Return the files that devices are given from the start, by name.

    Raises `NetworkSettingsError` where the method wants images and there are none, or the other way
    round, and `MethodError` where it cannot use them.
    """
    wanted = assignment.needs_shared
    if file is None and wanted:
        raise NetworkSettingsError(
            "public_images: the method's settings want images that all devices get; name them: "
            "`fleetledger model import-network --preprocessing FILE --public-images "
            "FILE.npz`, with an array 'images'"
        )
    if file is None:
        return {}
    if not wanted:
        raise NetworkSettingsError(
            f"public_images: {file} given, but the method's settings use no images of the "
            "operator; leave it out, or set shared_set to 'public' where the method has it"
        )
    if not isinstance(preprocessing, Preprocessing):
        raise NetworkSettingsError(
            f"public_images: {file} holds images, and this network reads "
            f"{'texts' if preprocessing.mode == 'text' else 'arrays'}"
        )
    return {SHARED: side.shared_of(assignment, _sized(file, _read_images(file), preprocessing))}


def base_tensors(network: AnyNetwork, name: str, file: Path | None) -> Arrays:
    """Return the network's tensors that nobody trains, from a file; none where all are trained.

    Raises `NetworkSettingsError` where a file is lacking or has no place, and `NetworkError` where
    it does not hold them.
    """
    plans = network.body.base_plan()
    if plans and file is None:
        raise NetworkSettingsError(
            f"weights: of {name!r} a part alone is trained, and a file gives the rest; name it: "
            "`fleetledger model import-network --preprocessing FILE --weights FILE`, a state dict "
            "(.safetensors, .pth)"
        )
    if file is None:
        return {}
    if not plans:
        raise NetworkSettingsError(
            f"weights: {file} has no place, {name!r} is trained whole; leave --weights out"
        )
    from fleetledger.learning.networks.weights_file import read_tensors  # noqa: PLC0415 - needs torch

    return {name: tensor.numpy() for name, tensor in read_tensors(file, plans).items()}


def _read_images(file: Path) -> Images:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            found: Any = arrays.get(IMAGES)
            names = sorted(arrays.files)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise NetworkSettingsError(
            f"public_images: {file} cannot be read: {error}; give an .npz file with an array "
            "'images'"
        ) from error
    if found is None:
        raise NetworkSettingsError(f"public_images: {file} has no array 'images', but {names}")
    grey_or_colour = found.ndim == 3 or (found.ndim == 4 and found.shape[3] == 3)
    if found.dtype != np.uint8 or not grey_or_colour or not found.size:
        raise NetworkSettingsError(
            f"public_images: {file}: images: {found.dtype} of shape {found.shape}; give uint8 "
            "of shape (N, height, width, 3) or (N, height, width)"
        )
    images: Images = found
    return images


def _sized(file: Path, images: Images, preprocessing: Preprocessing) -> Images:
    """Return pictures (N, c, h, w) at the network's size, made as devices make them."""
    try:
        sized = [sized_pixels(Image.fromarray(image), preprocessing) for image in images]
    except ImageError as error:
        raise NetworkSettingsError(f"public_images: {file}: {error}") from error
    return np.ascontiguousarray(np.stack(sized).transpose(0, 3, 1, 2))
