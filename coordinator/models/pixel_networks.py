"""Import of networks that give every pixel of a picture a class."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.methods.training.network_weights import Arrays
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.models import AnyPreprocessing, Preprocessing


def check_pixels(
    method: str, preprocessing: AnyPreprocessing, backbone: Path | None, weights: Path | None
) -> None:
    """Raise `NetworkSettingsError` where a method that segments is not given whole pictures."""
    if backbone is not None:
        raise NetworkSettingsError(
            f"backbone: {backbone} given, but {method!r} trains whole networks, which give every "
            "pixel a class; leave --backbone out; a pretrained trunk goes with --trunk"
        )
    if weights is not None:
        raise NetworkSettingsError(
            f"weights: {weights} has no place, {method!r} trains whole networks; a pretrained "
            "trunk goes with --trunk"
        )
    if not isinstance(preprocessing, Preprocessing):
        raise NetworkSettingsError(
            f"preprocessing.mode: {preprocessing.mode!r}, and {method!r} gives pixels of pictures "
            "their classes; give 'RGB' or 'L'"
        )
    if preprocessing.layout != "NCHW":
        raise NetworkSettingsError(
            f"preprocessing.layout: {preprocessing.layout!r}, and networks take 'NCHW'"
        )


def with_trunk(network: object, arrays: Arrays, file: Path) -> Arrays:
    """Return a network's first tensors with the trunk's from a file of torchvision's.

    Raises `NetworkSettingsError` where the network has no such trunk or torch is missing, and
    `learning.errors.NetworkError` for a file that is not of its trunk.
    """
    if not isinstance(network, SegmentationNetwork):
        raise NetworkSettingsError(
            f"trunk: {file} has no place, as the network gives no classes to pixels; leave --trunk "
            "out, or give --first-weights"
        )
    if find_spec("torch") is None:
        raise NetworkSettingsError(f"trunk: reading {file} needs torch; {pip_install('train')}")
    from fleetledger.learning.networks.weights_file import read_trunk  # noqa: PLC0415 - needs torch

    return {**arrays, **read_trunk(file, network)}
