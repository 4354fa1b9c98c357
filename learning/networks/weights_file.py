"""Reads the frozen tensors of a network from a file: safetensors, or torch's without code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.conversion import to_arrays
from fleetledger.learning.networks.plan import Arrays, TensorPlan
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.vit_weights import at_size, under_present_names

_TRUNK = "backbone."


def read_tensors(path: Path, plans: Sequence[TensorPlan]) -> dict[str, Tensor]:
    """Return the tensors of `plans` as float32; others in the file are left out.

    Raises `NetworkError` for a file that cannot be read, holds anything but named tensors, or
    lacks a tensor of the planned name and shape.
    """
    found = under_present_names(read_state(path))
    return select(path, at_size(found, plans), plans)


def read_trunk(path: Path, network: SegmentationNetwork) -> Arrays:
    """Return the tensors of a dense network's trunk, from a state dict of torchvision's.

    That of a whole segmentation network has them (`backbone.`), and that of a network for whole
    pictures, such as ImageNet's (`features.` of MobileNets, no prefix of ResNets). Raises
    `NetworkError` for a file that cannot be read or lacks one.
    """
    state = read_state(path)
    if not any(name.startswith(_TRUNK) for name in state):
        state = {_TRUNK + name.removeprefix("features."): tensor for name, tensor in state.items()}
    return to_arrays(select(path, state, network.body.trunk.plan()))


def select(
    path: Path, found: Mapping[str, Tensor], plans: Sequence[TensorPlan]
) -> dict[str, Tensor]:
    """Return the tensors of `plans` out of those `found` in the file `path`, as float32.

    Raises `NetworkError` where one is missing or of another shape.
    """
    for plan in plans:
        shape = tuple(found[plan.name].shape) if plan.name in found else "missing"
        if shape != plan.shape:
            raise NetworkError(
                f"weights: {plan.name!r} in {path} is {shape}, not {plan.shape}; "
                "give the weights of this network"
            )
    return {plan.name: found[plan.name].to(torch.float32) for plan in plans}


def read_state(path: Path) -> Mapping[str, Tensor]:
    """Return all named tensors in a file; raise `NetworkError` where it holds anything else."""
    try:
        loaded: Any = (
            safetensors.torch.load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except OSError as error:
        raise NetworkError(f"weights: {path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # torch's own text advises to unpickle whatever is in the file
        raise NetworkError(
            f"weights: {path} is damaged or holds more than tensors ({type(error).__name__}); "
            "give a state dict, best as safetensors"
        ) from error
    if not isinstance(loaded, Mapping) or not all(
        isinstance(value, Tensor) for value in loaded.values()
    ):
        raise NetworkError(f"weights: {path} holds more than named tensors; give a state dict")
    return loaded
