"""Directions of features; the one way in which a vector comes to length 1."""

from __future__ import annotations

import torch
from torch import Tensor


def unit(vectors: Tensor) -> Tensor:
    """Return `vectors` (..., d) at length 1; one of length 0 stays, and its gradient is finite."""
    squares = vectors.square().sum(dim=-1, keepdim=True)
    return vectors * torch.where(squares > 0, squares, torch.ones_like(squares)).rsqrt()
