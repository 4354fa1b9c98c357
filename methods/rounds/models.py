"""The tensors that devices of one process begin a round with, where networks are computed.

Devices that were sent the same get the same tensors: they are read and copied there once, and a
stack holds once what none of its agents trains. Nobody changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor

from fleetledger.learning.networks.conversion import copied_together
from fleetledger.methods.errors import MethodError
from fleetledger.methods.rounds.assignment import RoundsAssignment
from fleetledger.methods.rounds.messages import received
from fleetledger.methods.training.exchange import BASE, FitInstruction
from fleetledger.methods.training.instruction_models import InstructionModels, Model
from fleetledger.methods.training.network_weights import decode_base, first_rows

_KEPT = 2
"""Files of tensors that nobody trains, which stay in memory."""
_MODELS = InstructionModels[RoundsAssignment](received, first_rows)


def sent_model(
    assignment: RoundsAssignment, instruction: FitInstruction, device: str = "cpu"
) -> Model:
    """Return what training begins with; raise `MethodError` for a file that is none."""
    return _MODELS.sent(assignment, instruction, device)


def base_of(
    assignment: RoundsAssignment, instruction: FitInstruction, device: str = "cpu"
) -> Mapping[str, Tensor]:
    """Return the tensors that nobody trains, such as those that adapters change, by name.

    None where all of the network is trained. Raises `MethodError` where the order lacks their
    file, or it is not this network's.
    """
    if not assignment.network.body.base_plan():
        return {}
    if BASE not in instruction.extras:
        raise MethodError(
            f"{BASE}: network {assignment.settings.network!r} has tensors that nobody trains, and "
            "the order names no file with them; import the network again with --weights"
        )
    return _base(assignment, instruction.extras[BASE], device)


@lru_cache(_KEPT)
def _base(assignment: RoundsAssignment, file: bytes, device: str) -> Mapping[str, Tensor]:
    arrays = decode_base(file, assignment.network)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return copied_together(tensors, device)
