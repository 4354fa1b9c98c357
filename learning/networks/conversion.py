"""Between arrays, which travel and are summed, and tensors, which are trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.numerics.accelerator import waited_for

_ALIGNED = 64
"""Numbers from whose multiples on tensors begin in a buffer that many share."""


def to_tensors(
    arrays: Mapping[str, npt.NDArray[Any]], device: str = "cpu"
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return parameters and buffers on `device`, copied: to another one all of them at once."""
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    if torch.device(device).type != "cpu":
        tensors = copied_together(tensors, device)
    parameters = {name: value for name, value in tensors.items() if not is_buffer(name)}
    return parameters, {name: value for name, value in tensors.items() if is_buffer(name)}


def to_arrays(*states: Mapping[str, Tensor]) -> dict[str, npt.NDArray[np.float32]]:
    """Return all tensors of the states, such as parameters and buffers, as arrays by name."""
    tensors = {name: value.detach() for state in states for name, value in state.items()}
    return {name: value.numpy() for name, value in copied_together(tensors, "cpu").items()}


def brought_home(tensor: Tensor) -> Tensor:
    """Return the tensor in the host's memory; from a GPU into pinned memory, which is faster.

    The host waits until it has been computed, which is counted as waiting for an accelerator.
    """
    if tensor.device.type == "cpu":
        return tensor
    with waited_for():
        if tensor.device.type != "cuda":
            return tensor.cpu()
        room = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return room.copy_(tensor)


def copied_together(tensors: Mapping[str, Tensor], device: str) -> dict[str, Tensor]:
    """Return the tensors on `device`: one copy for all of a type that lie elsewhere.

    What is copied shares a buffer; nothing is copied that is there.
    """
    there, far = torch.device(device), dict(tensors)
    kinds: dict[torch.dtype, list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.device.type != there.type:
            kinds.setdefault(tensor.dtype, []).append(name)
    for names in kinds.values():
        far |= _copied(names, [tensors[name] for name in names], there)
    return far


def _copied(
    names: Sequence[str], tensors: Sequence[Tensor], device: torch.device
) -> dict[str, Tensor]:
    """Return tensors of one type on `device`, where each begins at a multiple of `_ALIGNED`."""
    rows = [one.reshape(-1) for one in tensors]
    if device.type != "cpu":
        rows = [functional.pad(row, (0, -len(row) % _ALIGNED)) for row in rows]
    joined = torch.cat(rows)
    there = brought_home(joined) if device.type == "cpu" else joined.to(device)
    copied = there.split([len(row) for row in rows])
    return {
        name: row[: one.numel()].view(one.shape)
        for name, one, row in zip(names, tensors, copied, strict=True)
    }
