"""How good a model of the fleet is for the newest classes, by the proxy's pictures of them.

LGA, equations (11) and (12). A model is scored by its own features of the pictures, drawn
`draws` times for each with noise,

    f~ = F(x) + omega n,    || omega n ||^2 <= xi sum_i sigma_i^2,

and is right where the head says the class that the picture's gradients told. omega follows

    omega_t = (C_old omega_{t-1} + sum over new classes of Tr(Delta_c) / d) / (C_old + C_new),

which is a variance, the mean over the classes so far; sigma_i^2 is the trace that devices sent. So
noise has the variance xi omega in each direction: as long as the bound allows to a class of mean
spread, and a class that is tighter has it cut to its own bound. With the variance omega itself the
bound would be exceeded tenfold, every draw would be cut to it, and (12) would decide nothing. As
printed (`square_root = False`) omega itself scales noise whose deviations sigma_i are those of the
model's features of a class's pictures.

The released program has no (12). Its radius is `FIRST_RADIUS` in the first task, and from then on
the root of the mean of Tr(Delta_c) / d over that task's classes, which it computes once. It squares
the variances of a class's features: the squares are the noise's deviations, and xi times their sum
bounds its squared length (`released`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.numerics.noise import normal_noise

Floats = npt.NDArray[np.float64]
TRIES = 10
"""Draws of a noise before the last one is brought down to the longest that is allowed."""


FIRST_RADIUS = 0.15
"""Of the released program, before its first task is over."""


@dataclass(frozen=True)
class AugmentationSettings:
    """Draws for each picture, and how long noise may be; 0 draws: the features themselves."""

    draws: int = 5
    xi: float = 0.1
    square_root: bool = True
    released: bool = False


def next_omega(omega: float, old_classes: int, traces: Sequence[float]) -> float:
    """Return omega of a task by that of the task before and the new classes' traces."""
    if not traces:
        return omega
    return (old_classes * omega + sum(traces)) / (old_classes + len(traces))


def released_radius(old_classes: int, first_mean: float) -> float:
    """Return the released program's radius by the mean of the first task's traces."""
    return sqrt(first_mean) if old_classes else FIRST_RADIUS


def augmented(
    features: Floats, variances: Floats, omega: float, settings: AugmentationSettings, seed: bytes
) -> Floats:
    """Return features (n * draws, d) around features (n, d) of one class; `variances` (d,).

    Draws differ with `seed`. The features themselves come back where nothing is to be drawn.
    """
    if not settings.draws:
        return features
    deviations = deviations_of(variances, omega, settings)
    spread = np.square(variances) if settings.released else variances
    noise, _ = bounded_noise(
        deviations, settings.xi * float(spread.sum()), len(features) * settings.draws, seed
    )
    return np.repeat(features, settings.draws, axis=0) + noise


def deviations_of(variances: Floats, omega: float, settings: AugmentationSettings) -> Floats:
    """Return the standard deviations (d,) of the noise of (11) before it is bounded.

    `omega` is the radius, where noise is that of the released program.
    """
    if settings.released:
        return omega * np.square(variances)
    if settings.square_root:
        return np.full_like(variances, sqrt(settings.xi * omega))
    return omega * np.sqrt(variances)


def bounded_noise(
    deviations: Floats, longest: float, rows: int, seed: bytes
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return noise (rows, d) of squared lengths up to `longest`, and whether it was drawn so.

    What is too long is drawn again; the last of `TRIES` draws is cut, and its length is `longest`.
    """
    width = len(deviations)
    noise = np.zeros((rows, width))
    left = np.arange(rows)
    for attempt in range(TRIES):
        drawn = normal_noise(seed + b"/%d" % attempt, rows * width).reshape(rows, width)
        noise[left] = deviations * drawn[left]
        left = left[np.square(noise[left]).sum(axis=1) > longest]
        if not len(left):
            break
    lengths = np.square(noise[left]).sum(axis=1, keepdims=True)
    noise[left] *= np.sqrt(longest / lengths)
    kept = np.ones(rows, np.bool_)
    kept[left] = False
    return noise, kept


def share_right(logits: npt.NDArray[np.floating], rows: Sequence[int]) -> float:
    """Return the share of `logits` (n, C) whose largest score is in the row that it should be."""
    return float(np.mean(logits.argmax(axis=1) == np.asarray(rows))) if len(logits) else 0.0
