"""Multinomial logistic regression with an L2 penalty, all samples at once, without a bias.

    L(W) = 1/n sum_i ( ln sum_c exp(w_c x_i)  -  w_{y_i} x_i )  +  l2/2 |W|^2

with samples x_i = `unit` h_i. L is strictly convex, so its minimum is one point, whatever the order
of the samples. It is found by Newton steps, each from conjugate gradients that stop early (Nocedal
and Wright, Numerical Optimization, 2nd edition, algorithm 7.1), and halved until L falls enough
(Armijo). In float64 on one BLAS thread, from W = 0: the same samples in the same order give the
same bits on the same platform.

Samples stay in the type that they come in and become float64 a block at a time, so the memory is
that of n C scores a few times over, not that of n M numbers in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import FeatureError
from fleetledger.learning.numerics.blas import one_blas_thread

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SCORE_ARRAYS = 8
"""Most arrays (n, C) of float64 that a fit holds at a time."""
WEIGHT_ARRAYS = 12
"""Most arrays (C, M) of float64."""

_BLOCK_ROWS = 1024
_ENOUGH = 1e-4
"""Share of the fall that the slope promises which a step must reach."""
_MOST_HALVINGS = 40


@dataclass(frozen=True)
class LogisticRule:
    """What is minimised, and when it is enough."""

    l2: float
    """Weight of the penalty beside the mean loss of a sample."""
    tolerance: float
    """Largest magnitude of an entry of the gradient at which a fit is done."""
    max_iterations: int
    """Most Newton steps."""
    max_inner: int = 200
    """Most conjugate gradient steps for one of them."""


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """W (C, M), the largest magnitude in the gradient there, and after how many Newton steps."""

    weights: Floats
    gradient: float
    iterations: int
    converged: bool


def fit_logistic(
    samples: npt.NDArray[Any], classes: Integers, rule: LogisticRule, *, unit: float = 1.0
) -> LogisticFit:
    """Return the fit for `samples` h (n, M) of classes 0 to C - 1 (n,); every class has samples.

    Raises `FeatureError` when shapes disagree, there are no samples, or a class has none.
    """
    _check(samples, classes)
    with one_blas_thread():
        return _Fit(_Samples(samples, unit), classes, rule).run()


class _Samples:
    """Products with the samples x = unit h, which are made float64 a block of rows at a time."""

    def __init__(self, samples: npt.NDArray[Any], unit: float) -> None:
        self._samples = samples
        self._unit = unit
        starts = range(0, len(samples), _BLOCK_ROWS)
        self._blocks = [slice(start, start + _BLOCK_ROWS) for start in starts]

    def scores(self, weights: Floats) -> Floats:
        """Return X W^T (n, C) for weights (C, M)."""
        scaled = weights.T * self._unit
        blocks = (self._samples[block].astype(np.float64) @ scaled for block in self._blocks)
        return np.concatenate(list(blocks))

    def summed(self, shares: Floats) -> Floats:
        """Return A^T X (C, M) for shares A (n, C)."""
        total = np.zeros((shares.shape[1], self._samples.shape[1]))
        for block in self._blocks:
            total += shares[block].T @ self._samples[block].astype(np.float64)
        return total * self._unit


class _Fit:
    """One minimisation: where W is, and what follows from it."""

    def __init__(self, samples: _Samples, classes: Integers, rule: LogisticRule) -> None:
        self._samples, self._classes, self._rule = samples, classes, rule
        self._rows = np.arange(len(classes))
        self._probabilities = np.empty(0)

    def run(self) -> LogisticFit:
        """Step from W = 0 until the gradient is small, or there are no steps left."""
        wanted = np.zeros((len(self._classes), int(self._classes.max()) + 1))
        wanted[self._rows, self._classes] = 1.0
        weights = np.zeros_like(self._samples.summed(wanted))
        scores = np.zeros_like(wanted)
        for iteration in range(self._rule.max_iterations + 1):
            loss = self._loss(weights, scores)
            self._probabilities = _softmax(scores)
            gradient = self._summed_mean(self._probabilities - wanted) + self._rule.l2 * weights
            largest = float(np.abs(gradient).max())
            if largest <= self._rule.tolerance:
                return LogisticFit(weights, largest, iteration, converged=True)
            if iteration == self._rule.max_iterations:
                break
            direction = self._newton_direction(gradient)
            change = self._samples.scores(direction)
            slope = float(np.vdot(gradient, direction))
            step = self._step((weights, scores), (direction, change), loss, slope)
            if step == 0.0:  # rounding errors hide any further fall
                break
            weights, scores = weights + step * direction, scores + step * change
        return LogisticFit(weights, largest, iteration, converged=False)

    def _newton_direction(self, gradient: Floats) -> Floats:
        """Return D with (Hessian D + gradient) small: the smaller, the nearer the minimum is."""
        length = sqrt(float(np.vdot(gradient, gradient)))
        enough = min(0.5, sqrt(length)) * length
        direction = np.zeros_like(gradient)
        residual = -gradient
        search, square = residual, length**2
        for _ in range(self._rule.max_inner):
            curved = self._hessian(search)
            share = square / float(np.vdot(search, curved))
            direction = direction + share * search
            residual = residual - share * curved
            former, square = square, float(np.vdot(residual, residual))
            if sqrt(square) <= enough:
                break
            search = residual + (square / former) * search
        return direction

    def _hessian(self, direction: Floats) -> Floats:
        """Return the second derivative of L times a direction (C, M)."""
        weighted = self._samples.scores(direction)
        weighted *= self._probabilities
        weighted -= self._probabilities * weighted.sum(axis=1, keepdims=True)
        return self._summed_mean(weighted) + self._rule.l2 * direction

    def _step(
        self, here: tuple[Floats, Floats], way: tuple[Floats, Floats], loss: float, slope: float
    ) -> float:
        """Return the first of 1, 1/2, 1/4, ... at which L falls enough, or 0."""
        for halvings in range(_MOST_HALVINGS):
            step = 0.5**halvings
            there = self._loss(here[0] + step * way[0], here[1] + step * way[1])
            if there <= loss + _ENOUGH * step * slope:
                return step
        return 0.0

    def _loss(self, weights: Floats, scores: Floats) -> float:
        largest = scores.max(axis=1)
        summed = np.exp(scores - largest[:, np.newaxis]).sum(axis=1)
        losses = np.log(summed) + largest - scores[self._rows, self._classes]
        return float(losses.mean()) + 0.5 * self._rule.l2 * float(np.vdot(weights, weights))

    def _summed_mean(self, shares: Floats) -> Floats:
        return self._samples.summed(shares) / len(shares)


def _softmax(scores: Floats) -> Floats:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _check(samples: npt.NDArray[Any], classes: Integers) -> None:
    if samples.ndim != 2 or classes.shape != (len(samples),) or not len(samples):
        raise FeatureError(
            f"samples: shape {samples.shape}, classes {classes.shape}; give (n, M) and (n,), n >= 1"
        )
    present = np.bincount(classes) > 0 if classes.min() >= 0 else np.array([False])
    if not present.all():
        raise FeatureError(
            f"classes: {classes.min()} to {classes.max()}, and not all of them occur; number the "
            "classes that have samples from 0 on"
        )
