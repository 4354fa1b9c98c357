"""Weights of vision transformers, whoever published them, under torchvision's names.

torchvision's published files have older names for the MLPs. timm's files (`blocks.0.attn.qkv`, as
of ViT-B/16 trained on ImageNet-21k) hold the same tensors in the same shapes and order under other
names. Position embeddings are brought to another size of picture as torchvision does it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isqrt

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.networks.plan import TensorPlan

_POSITIONS = "encoder.pos_embedding"
_OLDER = ((r"\.mlp\.linear_1\.", ".mlp.0."), (r"\.mlp\.linear_2\.", ".mlp.3."))
_TIMM = (
    (r"^cls_token$", "class_token"),
    (r"^pos_embed$", _POSITIONS),
    (r"^patch_embed\.proj\.", "conv_proj."),
    (r"^norm\.", "encoder.ln."),
    (r"^head\.", "heads.head."),
    (r"^blocks\.(\d+)\.", r"encoder.layers.encoder_layer_\1."),
    (r"(_\d+)\.norm1\.", r"\1.ln_1."),
    (r"(_\d+)\.norm2\.", r"\1.ln_2."),
    (r"\.attn\.qkv\.", ".self_attention.in_proj_"),
    (r"\.attn\.proj\.", ".self_attention.out_proj."),
    (r"\.mlp\.fc1\.", ".mlp.0."),
    (r"\.mlp\.fc2\.", ".mlp.3."),
)
_OF_TIMM = "blocks.0.attn.qkv.weight"


def is_of_timm(found: Mapping[str, Tensor]) -> bool:
    """Whether the tensors are those of a vision transformer of timm."""
    return _OF_TIMM in found


def under_present_names(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors under torchvision's names; those of other networks stay as they are."""
    rules = _TIMM if is_of_timm(found) else _OLDER
    return {_renamed(name, rules): value for name, value in found.items()}


def at_size(found: Mapping[str, Tensor], plans: Sequence[TensorPlan]) -> dict[str, Tensor]:
    """Return the tensors, position embeddings interpolated to the size that `plans` ask for.

    Those of no square grid stay, and fit nothing.
    """
    wanted = next((plan.shape for plan in plans if plan.name == _POSITIONS), None)
    positions = found.get(_POSITIONS)
    if wanted is None or positions is None or positions.ndim != len(wanted):
        return dict(found)
    return {**found, _POSITIONS: _interpolated(positions, isqrt(wanted[1] - 1))}


def _renamed(name: str, rules: Sequence[tuple[str, str]]) -> str:
    for older, present in rules:
        name = re.sub(older, present, name)
    return name


def _interpolated(positions: Tensor, side: int) -> Tensor:
    """Return embeddings (1, 1 + side squared, width) of (1, 1 + n squared, width), bicubic."""
    token, grid = positions[:, :1], positions[:, 1:].to(torch.float32)
    before = isqrt(grid.shape[1])
    if before**2 != grid.shape[1] or before == side:
        return positions
    planes = grid.transpose(1, 2).reshape(1, -1, before, before)
    planes = functional.interpolate(planes, size=side, mode="bicubic", align_corners=True)
    resized = planes.reshape(1, -1, side * side).transpose(1, 2)
    return torch.cat([token.to(torch.float32), resized], dim=1)
