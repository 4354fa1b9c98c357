"""FedProx: the local model stays near the one that was received.

    (mu / 2) || theta - theta_global ||^2     over the trained tensors
                                              (Li et al., Federated Optimization in Heterogeneous
                                              Networks, MLSys 2020); mu = 0.2 in DCID

FedMAX's repository takes the mean over each tensor instead of the sum; the factor mu is applied
where terms are composed.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fleetledger.learning.losses.reduction import summed_per_agent
from fleetledger.learning.networks.torch_layers import Tensors


def proximal(
    parameters: Tensors,
    anchor: Tensors,
    reduction: Literal["sum", "tensor_mean"] = "sum",
    *,
    stacked: bool = False,
) -> Tensor:
    """Return half the squared distance (...) of `parameters` from those of the same name.

    `tensor_mean` adds up the mean squared difference of each tensor, as FedMAX's repository does.
    """
    return 0.5 * torch.stack(
        [_squared(value, anchor[name], reduction, stacked) for name, value in parameters.items()]
    ).sum(dim=0)


def _squared(value: Tensor, anchor: Tensor, reduction: str, stacked: bool) -> Tensor:
    square = summed_per_agent((value - anchor).square(), stacked)
    if reduction == "sum":
        return square
    return square / (value[0] if stacked else value).numel()
