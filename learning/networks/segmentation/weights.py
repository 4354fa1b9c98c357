"""Reads a dense network's tensors from torchvision's state dicts.

Two kinds of files are understood, safetensors or torch's own: those of whole segmentation networks
(`backbone.`, `classifier.`), and those of networks for whole pictures, such as ImageNet's, whose
trunk alone is used (`features.` of MobileNets, no prefix of ResNets). Auxiliary classifiers and
counters are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from learning.errors import NetworkError
from learning.networks.conversion import to_arrays
from learning.networks.head import BIAS, WEIGHT
from learning.networks.plan import Arrays, TensorPlan
from learning.networks.segmentation.network import SegmentationNetwork
from learning.networks.weights_file import read_state, select

_TRUNK = "backbone."
_DEEPLAB = "classifier.4"
_LOW, _HIGH = "classifier.low_classifier", "classifier.high_classifier"


def read_trunk(path: Path, network: SegmentationNetwork) -> Arrays:
    """Return the trunk's tensors, from a file of either kind.

    Raises `NetworkError` for a file that cannot be read or lacks a tensor of the trunk.
    """
    return _arrays(path, _from_trunk(read_state(path)), network.body.trunk.plan())


def read_whole(path: Path, network: SegmentationNetwork) -> Arrays:
    """Return all tensors of a segmentation network's file, with as many rows as it has classes.

    Raises `NetworkError` for a file that cannot be read or is not of this network.
    """
    state = read_state(path)
    rows = _rows(path, state)
    shapes = [TensorPlan(name, tuple(tensor.shape)) for name, tensor in rows.items()]
    arrays = _arrays(path, {**state, **rows}, (*network.body.plan(), *shapes))
    network.check(arrays, len(arrays[WEIGHT]) - 1)
    return arrays


def _arrays(path: Path, state: Mapping[str, Tensor], plans: Sequence[TensorPlan]) -> Arrays:
    return to_arrays(select(path, state, plans))


def _from_trunk(state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the tensors by the names that segmentation networks give them."""
    if any(name.startswith(_TRUNK) for name in state):
        return state
    return {_TRUNK + name.removeprefix("features."): tensor for name, tensor in state.items()}


def _rows(path: Path, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the head's rows: one classifier's, or those of LR-ASPP's two side by side."""
    names = (_LOW, _HIGH) if f"{_LOW}.weight" in state else (_DEEPLAB,)
    try:
        weight = torch.cat([state[f"{name}.weight"].flatten(1) for name in names], dim=1)
        bias = torch.stack([state[f"{name}.bias"] for name in names]).sum(dim=0)
    except KeyError as error:
        raise NetworkError(
            f"weights: {error} is missing in {path}; give the state dict of a segmentation "
            "network, or read its trunk alone"
        ) from error
    return {WEIGHT: weight, BIAS: bias}
