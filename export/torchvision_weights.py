"""Loads weights from a file into a network without classifier: everything fits, or nothing is used.

Needs torch and torchvision.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path

import torch

from fleetledger.export.errors import WeightsError
from fleetledger.export.torchvision_network import FeatureNetwork
from fleetledger.export.weights_file import State, keep_versions, listed, read_weights
from fleetledger.learning.networks.vit_weights import is_of_timm, under_present_names

_POSITIONS = "encoder.pos_embedding"
_OLD_DENSENET_NAME = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12])\.")
"""The published files of DenseNet are older than its names."""


def load_weights(network: FeatureNetwork, path: Path) -> None:
    """Fill `network` from the state dict in the file `path`.

    The classifier that was cut off may be in the file, of any shape, or not. The position
    embeddings of a vision transformer are interpolated to the size of the network. Everything else
    must fit: `WeightsError` lists the names that the file lacks, those that are unknown, and those
    of another shape or type.
    """
    module, wanted = network.module, network.module.state_dict()
    state = _fitting_positions(network, _without_classifier(network, read_weights(path)))
    other = [name for name in state if name in wanted and not _fits(state[name], wanted[name])]
    told = [f"{name} {_looks(state[name])} for {_looks(wanted[name])}" for name in other]
    for name in other:
        del state[name]
    result = module.load_state_dict(state, strict=False)
    lacking = [name for name in result.missing_keys if name not in other]
    faults = [
        f"{what}: {listed(names)}"
        for what, names in (
            (f"missing ({len(lacking)})", lacking),
            (f"unknown ({len(result.unexpected_keys)})", result.unexpected_keys),
            (f"of another shape or type ({len(told)})", told),
        )
        if names
    ]
    if faults:
        raise WeightsError(
            f"weights: {path} does not fit {network.name}: {'; '.join(faults)}; give the state "
            f"dict of torchvision's {network.name}, or the name of the network it belongs to"
        )


def _without_classifier(network: FeatureNetwork, state: State) -> State:
    """Return the state under the network's names, without tensors of what was cut off."""
    wanted, found = network.module.state_dict(), _named_as_here(state)
    current = ((_OLD_DENSENET_NAME.sub(r"\1\2.", name), found[name]) for name in found)
    kept = State(
        (name, tensor)
        for name, tensor in current
        if name in wanted or not name.startswith(f"{network.cut}.")
    )
    # A file without versions counts as old, but MNASNet refuses to load without its own.
    keep_versions(kept, getattr(state, "_metadata", {"": {"version": network.module._version}}))
    return kept


def _named_as_here(state: State) -> Mapping[str, torch.Tensor]:
    """Return the state under torchvision's names: of a vision transformer it may be timm's."""
    return under_present_names(state) if is_of_timm(state) else state


def _fitting_positions(network: FeatureNetwork, state: State) -> State:
    """Return the state with a vision transformer's position embeddings at the network's size."""
    if _POSITIONS not in state or not hasattr(network.module, "patch_size"):
        return state
    transformer = importlib.import_module("torchvision.models.vision_transformer")
    try:
        fitting: State = transformer.interpolate_embeddings(
            network.size, network.module.patch_size, state
        )
    except (RuntimeError, ValueError):
        return state  # no square grid of positions: their shape will be told as a misfit
    return fitting


def _fits(tensor: torch.Tensor, wanted: torch.Tensor) -> bool:
    same_kind = tensor.is_floating_point() or not wanted.is_floating_point()
    return same_kind and tensor.shape == wanted.shape


def _looks(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
