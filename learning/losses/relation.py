"""ERDIL's relations: the angles between anchors stay as the old model saw them.

    mean over ordered triples (i, j, k) of different anchors of
        huber(cos(f_i - f_j, f_k - f_j) - the same of the old model),      delta = 1

The simple form: of all triples some are drawn for each step. The source is thin (R, medium
confidence): the paper chooses vertices from a graph, DCID from herding, and that is what is here.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.losses.directions import unit
from fleetledger.learning.losses.reduction import weighted_mean

_BITS = 21
"""Of a word for each place of a triple."""


def relation(features: Tensor, old: Tensor, triples: Tensor, weight: Tensor) -> Tensor:
    """Return the mean (...) over `triples` (..., T, 3), rows of features (..., n, d).

    `weight` (..., T) is 0 for a triple that does not count. An angle with a side of length 0 has
    the cosine 0.
    """
    change = angle_cosines(features, triples) - angle_cosines(old.detach(), triples)
    losses = functional.huber_loss(change, torch.zeros_like(change), reduction="none", delta=1.0)
    return weighted_mean(losses, weight)


def angle_cosines(features: Tensor, triples: Tensor) -> Tensor:
    """Return the cosine (..., T) of the angle at the second of each triple of rows."""
    one, middle, two = (
        torch.take_along_dim(features, rows.unsqueeze(-1), dim=-2) for rows in triples.unbind(-1)
    )
    return (unit(one - middle) * unit(two - middle)).sum(dim=-1)


def drawn_triples(words: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return ordered triples (..., T, 3) of different rows that count, and their weight (..., T).

    Each of the `words` int64 (..., T) draws one, whatever rows are padded behind, uniformly but for
    2^-21 m where m of the rows `weight` (..., n) count. Of fewer than three no triple counts.
    """
    counts = (weight > 0).sum(dim=-1, keepdim=True)
    places = _different(words, counts)
    counting = (weight > 0).to(torch.int8).argsort(dim=-1, descending=True, stable=True)
    flat = places.flatten(-2).clamp(max=weight.shape[-1] - 1)
    triples = counting.gather(-1, flat).reshape(places.shape)
    return triples, (counts >= 3).to(weight.dtype).expand(words.shape)


def _different(words: Tensor, counts: Tensor) -> Tensor:
    """Return three different numbers below `counts` (..., 1) for each word: (..., T, 3).

    The second is drawn among the others and steps over the first, the third over both.
    """
    drawn = [
        (words >> place * _BITS & (1 << _BITS) - 1) * (counts - place).clamp(min=1) >> _BITS
        for place in range(3)
    ]
    first = drawn[0]
    second = drawn[1] + (drawn[1] >= first)
    lower, higher = torch.minimum(first, second), torch.maximum(first, second)
    third = drawn[2] + (drawn[2] >= lower)
    third = third + (third >= higher)
    return torch.stack([first, second, third], dim=-1)
