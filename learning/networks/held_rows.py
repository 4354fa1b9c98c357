"""Rows of a head that stay as they are while later ones are trained (LUCIR: old class vectors).

A row that only has no gradient would still decay and coast; so the first rows lie with the tensors
that are not trained, under the same name, and come before the trained ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fleetledger.learning.networks.head import BIAS, ROWS
from fleetledger.learning.networks.torch_layers import Tensors


def split_rows(parameters: Tensors, held: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what is trained, and the first `held` rows of the head, which are not."""
    fixed = {name: parameters[name][:held] for name in ROWS if name in parameters}
    later = {name: parameters[name][held:] for name in fixed}
    return {**parameters, **later}, fixed


def joined_rows(fixed: Tensors, trained: Tensors) -> dict[str, Tensor]:
    """Return the tensors of both; where rows of the head lie in both, the fixed ones come first.

    In a stack `trained` has a leading axis of agents, and `fixed` has it or is shared by all.
    """
    together = {
        name: _joined(name, fixed[name], trained[name])
        for name in ROWS
        if name in fixed and name in trained
    }
    return {**fixed, **trained, **together}


def _joined(name: str, first: Tensor, later: Tensor) -> Tensor:
    axis = -1 if name == BIAS else -2
    agents = later.shape[: later.dim() + axis]
    return torch.cat([first.expand(*agents, *first.shape[axis:]), later], dim=axis)
