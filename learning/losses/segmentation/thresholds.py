"""How uncertain a pixel may be for the old model's guess to become its label.

`adaptive_thresholds` is Algorithm 1 of FBL, once before each local epoch over the device's data:

    gamma_k   of the entropies of all pixels that the old model predicts as old class k, sorted from
              the lowest on, the one at index floor(number * rho), or the last
    rho       min(0.2 + 0.1 epoch, 0.8)

`median_thresholds` is PLOP's (Douillard et al., CVPR 2021): of the old model's own entropies, the
median for each class that it predicts, background among them.

`released_thresholds` is what FBL's released program does instead: a histogram whose running sum
adds the number of a bin where it means its count. With many pixels the result is the first bin that
alone holds a share rho, or everything is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.segmentation.pixels import BACKGROUND, counted, pixel_entropy

NOTHING = -math.inf
"""The threshold of a class that was never predicted: no entropy is as low."""
BINS = 100
"""Of the released program's histogram."""
RELEASED_FLOOR = 0.001


def accepted_share(
    epoch: int, first: float = 0.2, rise: float = 0.1, highest: float = 0.8
) -> float:
    """Return rho in a local epoch, counted from 0; ADE20k's `rise` is 0.05."""
    return min(first + rise * epoch, highest)


def adaptive_thresholds(batches: Iterable[tuple[Tensor, Tensor, Tensor]], share: float) -> Tensor:
    """Return gamma (C_old,) from batches of (logits, old logits, labels) and rho = `share`.

    The entropy is that of the current model's logits. Ignored pixels do not count. Background and
    classes that were never predicted get `NOTHING`. There must be a batch. What is held until the
    end is one number for each pixel of an old class, for `median_thresholds` of background too.
    """
    parts = []
    for logits, old_logits, labels in batches:
        guesses = old_logits.argmax(dim=1)
        chosen = counted(labels) & (guesses != BACKGROUND)
        parts.append(_of_classes(pixel_entropy(logits), guesses, chosen, old_logits.shape[1]))
    return _thresholds(parts, lambda values: at_share(values, share))


def median_thresholds(batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the medians (C_old,) of the old model's entropies from (old logits, labels).

    Only pixels labelled background count. Classes that were never predicted get `NOTHING`.
    """
    parts = []
    for old_logits, labels in batches:
        guesses, chosen = old_logits.argmax(dim=1), labels == BACKGROUND
        parts.append(_of_classes(pixel_entropy(old_logits), guesses, chosen, old_logits.shape[1]))
    return _thresholds(parts, median)


def at_share(values: Tensor, share: float) -> Tensor:
    """Return of `values` (n,), n > 0, the one at index min(floor(n * share), n - 1) when sorted."""
    index = min(math.floor(len(values) * share), len(values) - 1)
    return values.kthvalue(index + 1).values


def median(values: Tensor) -> Tensor:
    """Return the middle of `values` (n,), n > 0, or the mean of the two in the middle."""
    lower, upper = (len(values) + 1) // 2, len(values) // 2 + 1
    return (values.kthvalue(lower).values + values.kthvalue(upper).values) / 2


def released_entropy(old_logits: Tensor, channels: int) -> Tensor:
    """Return -sum_c P_o ln(P_o + 1e-8) / (C_old ln C_old ln C) (B, h, w), C being `channels`."""
    old = old_logits.shape[1]
    probabilities = functional.softmax(old_logits, dim=1)
    total = -(probabilities * (probabilities + 1e-8).log()).sum(dim=1)
    return total / (old * math.log(old) * math.log(channels))


def released_thresholds(
    batches: Iterable[tuple[Tensor, Tensor]], channels: int, share: float
) -> Tensor:
    """Return the released program's thresholds (C_old,) from (old logits, labels).

    Pixels labelled background count, those predicted as background among them.
    """
    histograms = [_histogram(old_logits, labels, channels) for old_logits, labels in batches]
    rows: list[list[int]] = torch.stack(histograms).sum(dim=0).tolist()
    limits = [released_quantile(row, share) for row in rows]
    return torch.tensor(limits, dtype=torch.float32, device=histograms[0].device)


def released_quantile(counts: Sequence[int], share: float) -> float:
    """Return the released program's quantile of a histogram over [0, 1], at least its floor.

    The rest is divided by the count of the bin where the search ends. If that is 0, the quotient is
    infinite, everything is accepted, or, below zero, what is under the floor; of 0 / 0, nothing.
    """
    wanted, running = sum(counts) * share, 0
    if not any(counts):
        return RELEASED_FLOOR
    place = len(counts) - 1
    for number, count in enumerate(counts):
        if running <= wanted <= running + count:
            place = number
            break
        running += number  # not `count`
    rest = wanted - running
    if rest == counts[place] == 0:
        return NOTHING
    within = rest / counts[place] if counts[place] else math.copysign(math.inf, rest)
    return max((place + within) / len(counts), RELEASED_FLOOR)


def _of_classes(entropies: Tensor, guesses: Tensor, chosen: Tensor, channels: int) -> list[Tensor]:
    """Return for each class the entropies of the chosen pixels that were guessed to be of it."""
    values, classes = entropies[chosen], guesses[chosen]
    order = classes.argsort(stable=True)
    sizes = torch.bincount(classes, minlength=channels).tolist()
    return list(values[order].split(sizes))


def _thresholds(parts: Sequence[Sequence[Tensor]], pick: Callable[[Tensor], Tensor]) -> Tensor:
    """Return what `pick` finds in each class's entropies of all batches, `NOTHING` in none."""
    classes = [torch.cat(values) for values in zip(*parts, strict=True)]
    nothing = classes[0].new_full((), NOTHING)
    return torch.stack([pick(values) if len(values) else nothing for values in classes])


def _histogram(old_logits: Tensor, labels: Tensor, channels: int) -> Tensor:
    """Return how many pixels of a batch lie in each bin, int64 (C_old, BINS)."""
    chosen = labels == BACKGROUND
    classes = old_logits.argmax(dim=1)[chosen]
    bins = (released_entropy(old_logits, channels)[chosen] * BINS).long().clamp(max=BINS - 1)
    old = old_logits.shape[1]
    return torch.bincount(classes * BINS + bins, minlength=old * BINS).reshape(old, BINS)
