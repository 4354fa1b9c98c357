"""Learning rates of a round's local epochs, for `Sgd.rates`."""

from __future__ import annotations

from collections.abc import Collection
from math import cos, pi


def constant_rates(rate: float, epochs: int) -> tuple[float, ...]:
    """Return the same rate for every epoch."""
    return (rate,) * epochs


def stepped_rates(
    rate: float, epochs: int, milestones: Collection[int], factor: float = 0.1, first: int = 0
) -> tuple[float, ...]:
    """Return the rate times `factor` for each milestone reached.

    `first` is the number of the first of these epochs; where milestones count rounds, give one
    round's number for all its epochs by way of `constant_rates`.
    """
    return tuple(
        rate * factor ** sum(mark <= first + epoch for mark in milestones)
        for epoch in range(epochs)
    )


def cosine_rate(rate: float, number: int, rounds: int) -> float:
    """Return the rate of round `number`, from 0, that falls along half a cosine over all rounds."""
    return 0.5 * rate * (1 + cos(pi * number / rounds))


def polynomial_rates(
    rate: float, epochs: int, first: int, total: int, power: float
) -> tuple[float, ...]:
    """Return the rate times (1 - number / total)^power for epochs of so many in all, from 0 on.

    `first` is the number of the first of these epochs; from `total` on the rate is 0.
    """
    left = (max(0.0, 1 - (first + epoch) / total) for epoch in range(epochs))
    return tuple(rate * share**power for share in left)
