"""From gradients back to pictures: what the proxy does with them, and what an attacker could.

LGA, equations (9) and (10): minimise over x the squared distance of Gamma's gradients at x from
those that were sent, by L-BFGS from noise. All prototypes of a pool are searched for at once, each
on a way of its own.

The paper's noise is N(0, 1), while pictures lie between 0 and 1. What noise has more than a picture
in fine detail goes slowly, as sigmoids hardly pass it on: from grey with little noise a search
needs about a third of the steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fleetledger.learning.networks.conversion import copied_together
from fleetledger.learning.numerics.noise import normal_noise
from fleetledger.learning.training.lbfgs import BatchedLbfgs, LbfgsSettings
from fleetledger.methods.lga.distance import GradientDistance
from fleetledger.methods.lga.encoding import Encoding, Gradients

_GREY, _DEVIATION = 0.5, 0.1
_TOGETHER = 32
"""Rows searched at once: at 32 pixels each holds 10 MB of history."""


SEARCH = LbfgsSettings(
    rate=1.0,
    steps=120,
    inner=20,
    history=200,
    tolerance_gradient=1e-9,
    tolerance_change=1e-13,
    enough=1e-6,
    safeguard=True,
)


@dataclass(frozen=True)
class InversionSettings:
    """How long is searched, where from, and how many of the last pictures on the way are kept."""

    search: LbfgsSettings = field(default_factory=lambda: SEARCH)
    kept: int = 20
    start: Literal["grey", "noise"] = "grey"
    """N(0.5, 0.1^2), or N(0, 1) as the paper has it."""


RELEASED = replace(SEARCH, rate=0.1, steps=250)
"""The rate and the steps of the released program."""


@dataclass(frozen=True, eq=False)
class Inverted:
    """Pictures found for `rows` sets of gradients, in units of the device's pictures, 0 to 1."""

    pictures: Tensor
    """(rows, c, s, s), as the search ended."""
    iterates: Tensor
    """(kept, rows, c, s, s): the last ones on the way, the oldest first; one that was found early
    repeats."""
    distances: tuple[float, ...]
    """Squared distance from the gradients, of each row at the last step."""


def invert(
    encoding: Encoding,
    gradients: Sequence[Gradients],
    labels: Sequence[int],
    settings: InversionSettings,
    seed: int,
    device: str = "cpu",
) -> Inverted:
    """Return pictures with such gradients and labels; the search of a row begins by `seed` and row.

    Computed in float64 on `device`; what is found is on the processor.
    """
    stacked = {name: torch.stack([one[name] for one in gradients]) for name in encoding.shapes}
    sent = {name: rows.double() for name, rows in copied_together(stacked, device).items()}
    first = next(iter(sent.values()))
    known = torch.tensor(list(labels), device=first.device)
    starts = _starts(encoding, len(known), settings, seed).to(first)
    parts = [
        _search(
            GradientDistance(encoding, {k: t[rows] for k, t in sent.items()}, known[rows]),
            starts[rows],
            settings,
        )
        for rows in torch.split(torch.arange(len(known), device=first.device), _TOGETHER)
    ]
    return Inverted(
        torch.cat([part.pictures for part in parts]).cpu(),
        torch.cat([part.iterates for part in parts], dim=1).cpu(),
        tuple(distance for part in parts for distance in part.distances),
    )


def _search(distance: GradientDistance, start: Tensor, settings: InversionSettings) -> Inverted:
    search = BatchedLbfgs(distance, start, settings.search)
    iterates: deque[Tensor] = deque(maxlen=settings.kept)
    values = start.new_zeros(len(start))
    for _ in range(settings.search.steps):
        before = search.points.clone()
        values = search.step()
        iterates.append(distance.pictures(search.points.clone()))
        if torch.equal(before, search.points):
            break  # all are found, or stuck
    iterates.extend([iterates[-1]] * (settings.kept - len(iterates)))
    return Inverted(
        distance.pictures(search.points), torch.stack(list(iterates)), tuple(values.tolist())
    )


def peak_signal_to_noise(found: Tensor, truth: Tensor) -> float:
    """Return the ratio in decibels of pictures whose values lie between 0 and 1."""
    return float(-10 * torch.log10((found - truth).square().mean()))


def _starts(encoding: Encoding, rows: int, settings: InversionSettings, seed: int) -> Tensor:
    """Return where searches begin, (rows, n): a row's place is the same whatever comes after it."""
    numbers = prod((encoding.channels, encoding.side, encoding.side))
    drawn = [normal_noise(b"inversion/%d/%d" % (seed, row), numbers) for row in range(rows)]
    noise = torch.from_numpy(np.stack(drawn))
    return noise if settings.start == "noise" else _GREY + _DEVIATION * noise
