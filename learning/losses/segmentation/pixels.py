"""What all losses over pixels need: which pixels count, their entropy, and means by class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

BACKGROUND = 0
_LABELS = 256
"""Values of a byte."""

IGNORED = 255
"""The label of pixels that nobody can tell; they are in no sum and no mean."""


def counted(labels: Tensor) -> Tensor:
    """Return which pixels count, bool in the shape of `labels`."""
    return labels != IGNORED


def indices(labels: Tensor) -> Tensor:
    """Return labels to index channels by: background where a pixel is ignored."""
    return labels.masked_fill(labels == IGNORED, BACKGROUND)


def at_labels(values: Tensor, labels: Tensor) -> Tensor:
    """Return of `values` (B, C, h, w) those of each pixel's own label: (B, h, w)."""
    return values.gather(1, indices(labels).unsqueeze(1)).squeeze(1)


def pixel_entropy(logits: Tensor) -> Tensor:
    """Return h = - sum_c p_c ln p_c in nats (B, h, w), p the softmax over channels."""
    logarithms = functional.log_softmax(logits, dim=1)
    return -(logarithms.exp() * logarithms).sum(dim=1)


def pixel_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return -ln p_y (B, h, w), 0 where a pixel is ignored."""
    return functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")


def counted_mean(values: Tensor, labels: Tensor) -> Tensor:
    """Return the mean () of `values` (B, h, w) over the pixels that count, 0 without any."""
    counts = counted(labels)
    total = torch.where(counts, values, torch.zeros_like(values)).sum()
    return total / counts.sum().clamp(min=1)


def class_counts(labels: Tensor, channels: int) -> Tensor:
    """Return how many pixels have each label, int64 (C,); ignored ones are in none."""
    flat = labels.flatten()  # bytes in int64; a `bincount` would wait for the largest
    counts = flat.new_zeros(_LABELS).scatter_add_(0, flat, torch.ones_like(flat))
    return counts[:channels]


def class_means(values: Tensor, labels: Tensor, channels: int) -> Tensor:
    """Return the mean (C, d) of `values` (B, d, h, w) over the pixels of each label, 0 for none.

    Computed as a product with one-hot labels, in full precision: sums of millions of numbers one
    after another, or in bfloat16, would be too coarse.
    """
    members = (
        labels.flatten(1).unsqueeze(1) == torch.arange(channels, device=labels.device)[:, None]
    )
    with torch.autocast(values.device.type, enabled=False):
        products = members.to(values.dtype) @ values.flatten(2).mT
    return products.sum(dim=0) / members.sum(dim=(0, 2)).clamp(min=1).unsqueeze(-1)
