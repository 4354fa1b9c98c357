"""From gradients back to pictures: what the proxy does with them, and what an attacker could.

LGA, equations (9) and (10): minimise over x the squared distance of Gamma's gradients at x from
those that were sent, by L-BFGS from noise. All prototypes of a pool are searched for at once, each
on a way of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from torch import Tensor

from learning.numerics.noise import normal_noise
from learning.training.lbfgs import BatchedLbfgs, LbfgsSettings
from methods.lga.encoding import Encoding, Gradients

RELEASED = LbfgsSettings(rate=0.1, steps=250, inner=20)
"""Of the released program: 38.6 dB for a picture of 32 pixels."""


@dataclass(frozen=True)
class InversionSettings:
    """How long is searched, and how many of the last pictures on the way are kept."""

    search: LbfgsSettings = field(default_factory=LbfgsSettings)
    kept: int = 20


@dataclass(frozen=True, eq=False)
class Inverted:
    """Pictures found for `rows` sets of gradients, in units of the device's pictures, 0 to 1."""

    pictures: Tensor
    """(rows, c, s, s), as the search ended."""
    iterates: Tensor
    """(kept, rows, c, s, s): the last ones on the way, the oldest first."""
    distances: tuple[float, ...]
    """Squared distance from the gradients, of each row at the last step."""


def invert(
    encoding: Encoding,
    gradients: Sequence[Gradients],
    labels: Sequence[int],
    settings: InversionSettings,
    seed: int,
) -> Inverted:
    """Return pictures with such gradients and labels; the search of a row begins by `seed` and row.

    Everything is computed where and as exactly as the gradients are given.
    """
    shape = (encoding.channels, encoding.side, encoding.side)
    sent = {name: torch.stack([one[name] for one in gradients]) for name in encoding.shapes}
    known = torch.tensor(list(labels), device=_any(sent).device)

    def distance(points: Tensor, rows: Tensor) -> Tensor:
        found = encoding.gradients(points.reshape(-1, *shape), known[rows])
        parts = [(found[name] - sent[name][rows]).square().flatten(1).sum(1) for name in sent]
        return torch.stack(parts).sum(dim=0)

    search = BatchedLbfgs(distance, _noise(len(known), shape, seed, _any(sent)), settings.search)
    iterates, values = [], _any(sent).new_zeros(len(known))
    for step in range(settings.search.steps):
        values = search.step()
        if step >= settings.search.steps - settings.kept:
            iterates.append(search.points.reshape(-1, *shape).clone())
    pictures = search.points.reshape(-1, *shape)
    return Inverted(pictures, torch.stack(iterates), tuple(values.tolist()))


def peak_signal_to_noise(found: Tensor, truth: Tensor) -> float:
    """Return the ratio in decibels of pictures whose values lie between 0 and 1."""
    return float(-10 * torch.log10((found - truth).square().mean()))


def _noise(rows: int, shape: tuple[int, ...], seed: int, like: Tensor) -> Tensor:
    """Return the beginning of each search, N(0, 1): the same for a row whatever comes after it."""
    starts = [normal_noise(b"inversion/%d/%d" % (seed, row), prod(shape)) for row in range(rows)]
    return torch.from_numpy(np.stack(starts)).to(like.device, like.dtype)


def _any(tensors: Gradients) -> Tensor:
    return next(iter(tensors.values()))
