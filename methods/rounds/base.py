"""The tensors of a network that nobody trains, such as those that adapters change."""

from __future__ import annotations

import torch
from torch import Tensor

from learning.networks.conversion import copied_together
from methods.errors import MethodError
from methods.network_weights import decode_base
from methods.rounds.assignment import RoundsAssignment
from methods.training import BASE, FitInstruction


def base_of(
    assignment: RoundsAssignment, instruction: FitInstruction, device: str = "cpu"
) -> dict[str, Tensor]:
    """Return them by name, on a device; none where all of the network is trained.

    Raises `MethodError` where the order lacks their file, or it is not this network's.
    """
    if not assignment.network.body.base_plan():
        return {}
    if BASE not in instruction.extras:
        raise MethodError(
            f"{BASE}: network {assignment.settings.network!r} has tensors that nobody trains, and "
            "the order names no file with them; import the network again with --weights"
        )
    arrays = decode_base(instruction.extras[BASE], assignment.network)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return copied_together(tensors, device)
