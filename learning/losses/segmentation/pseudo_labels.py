"""Labels for pixels that a task's masks call background, from what the old model says.

FBL (2), paper mode; h is the entropy of the current model, a the old model's guess:

    yhat   y   where the mask shows a class;  255 stays
           a   where y is background, a an old class and h <= gamma_a
           background otherwise, or 255 with `unsure = "ignore"`

PLOP takes every guess, background too, where the old model's own entropy is at most the median of
its class, and ignores the rest; FBL's released program does so with its own entropy and thresholds.
Both multiply an image's loss by the share of its background pixels whose guess was accepted.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.segmentation.pixels import BACKGROUND, IGNORED, pixel_entropy
from fleetledger.learning.losses.segmentation.thresholds import released_entropy

Unsure = Literal["background", "ignore"]
"""What becomes of a pixel whose guess, an old class, is not accepted."""


def adaptive_labels(
    logits: Tensor,
    old_logits: Tensor,
    labels: Tensor,
    thresholds: Tensor,
    unsure: Unsure = "background",
) -> Tensor:
    """Return yhat (B, h, w) of (2) with `thresholds` (C_old,), that of background unused."""
    guesses = old_logits.argmax(dim=1)
    accepted = pixel_entropy(logits.detach()) <= thresholds[guesses]
    return _old_classes(labels, guesses, accepted, unsure)


def probable_labels(
    old_logits: Tensor, labels: Tensor, probability: float = 0.7, unsure: Unsure = "background"
) -> Tensor:
    """Return labels (B, h, w) as the ablation w/oAPL: accepted at one probability for all."""
    highest, guesses = functional.softmax(old_logits, dim=1).max(dim=1)
    return _old_classes(labels, guesses, highest >= probability, unsure)


def median_labels(old_logits: Tensor, labels: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """Return PLOP's labels (B, h, w) and its factor (B,), 1 for an image without background."""
    guesses = old_logits.argmax(dim=1)
    asked = labels == BACKGROUND
    accepted = (pixel_entropy(old_logits) <= thresholds[guesses]) & asked
    number = asked.sum(dim=(1, 2))
    share = accepted.sum(dim=(1, 2)).to(old_logits.dtype) / number.clamp(min=1)
    factor = torch.where(number > 0, share, torch.ones_like(share))
    return _confident(labels, asked, guesses, accepted), factor


def released_labels(
    old_logits: Tensor, labels: Tensor, thresholds: Tensor, channels: int
) -> tuple[Tensor, Tensor]:
    """Return the released program's labels (B, h, w) and nu (B,); the model has `channels`.

    An image without background has nu = 0, so that its loss does not count.
    """
    guesses = old_logits.argmax(dim=1)
    asked = labels < old_logits.shape[1]
    accepted = (released_entropy(old_logits, channels) < thresholds[guesses]) & asked
    number = asked.sum(dim=(1, 2)).to(old_logits.dtype)
    factor = accepted.sum(dim=(1, 2)) / (number + 1e-6)
    return _confident(labels, asked, guesses, accepted), factor


def _old_classes(labels: Tensor, guesses: Tensor, accepted: Tensor, unsure: Unsure) -> Tensor:
    asked = (labels == BACKGROUND) & (guesses != BACKGROUND)
    rest = BACKGROUND if unsure == "background" else IGNORED
    return torch.where(asked, torch.where(accepted, guesses, rest), labels)


def _confident(labels: Tensor, asked: Tensor, guesses: Tensor, accepted: Tensor) -> Tensor:
    """Return, where a pixel is asked about, its guess if accepted, else 255."""
    return torch.where(asked, torch.where(accepted, guesses, IGNORED), labels)
