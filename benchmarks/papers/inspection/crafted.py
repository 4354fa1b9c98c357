"""Samples made by gradient against a ridge model, from every feature that the others hold.

Adam raises the share of wrong answers through the closed form of the model that samples lead to:

    W = W0 + A h^T (D^-1 + h A h^T)^-1 (Y - h W0)      A = (G0 + lambda I)^-1, D their weights

They lie in the range of real ones, so what they come to passes every rule of intake.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_RATE = 6.0
_TEMPERATURES = {10: 0.05, 100: 0.02}
"""Width of the smooth margin, by the number of classes."""


@dataclass(frozen=True)
class Aim:
    """What a liar wants: `weights` samples of each of `labels`, against a class or all of them."""

    labels: Integers
    weights: Integers
    target: int | None = None
    steps: int = 150

    @classmethod
    def of(
        cls, samples: int, classes: int = 10, target: int | None = None, steps: int = 150
    ) -> Aim:
        """Return the aim of so many samples, few different ones a class."""
        kinds = min(max(20, classes) if target is None else 4, samples)
        first = 0 if target is None else target + 1
        labels = (first + np.arange(kinds)) % classes
        weights = np.full(kinds, samples // kinds)
        weights[: samples - weights.sum()] += 1
        return cls(labels, weights, target, steps)


class Liar:
    """Makes samples against a model of features (n, M) that it knows all of."""

    def __init__(self, h: Floats, labels: Integers, ridge: float, largest: int) -> None:
        self._h, self._y, self._largest = h, labels, largest
        self._classes = int(labels.max()) + 1
        system = h.T @ h + ridge * np.eye(h.shape[1])
        self._inverse = np.linalg.inv(system)
        self._weights = self._inverse @ (h.T @ np.eye(self._classes)[labels])
        self._temperature = _TEMPERATURES.get(self._classes, 0.05)

    def samples(self, aim: Aim, seed: int = 0, seen: int = 800) -> tuple[Floats, Integers]:
        """Return the liar's samples, each as often as its weight says.

        Wrong answers are counted among `seen` of the others' samples, or among the target's.
        """
        rows = np.random.default_rng(seed).permutation(len(self._y))[:seen]
        if aim.target is not None:
            rows = np.flatnonzero(self._y == aim.target)
        x, told = self._h[rows], self._y[rows]
        asked = x @ self._inverse, x @ self._weights, told
        best, h = (-1.0, self._begin(aim)), self._begin(aim)
        first, second = np.zeros_like(h), np.zeros_like(h)
        for step in range(1, aim.steps + 1):
            wrong, slope = self._slope(h, aim, asked)
            if wrong > best[0]:
                best = wrong, h.copy()
            first = 0.9 * first + 0.1 * slope
            second = 0.999 * second + 0.001 * slope**2
            far = np.sqrt(second / (1 - 0.999**step)) + 1e-12
            h = np.clip(h - _RATE * (first / (1 - 0.9**step)) / far, 0, self._largest)
        made = np.rint(best[1])
        return np.repeat(made, aim.weights, axis=0), np.repeat(aim.labels, aim.weights)

    def _begin(self, aim: Aim) -> Floats:
        """Return the corners that raise the score of a class on images of the next one."""
        rows = []
        for label in aim.labels:
            of = (label + 1) % self._classes if aim.target is None else aim.target
            mean = self._h[self._y == of].mean(axis=0)
            rows.append(np.where(self._inverse @ mean > 0, self._largest, 0) * 0.8)
        return np.array(rows)

    def _slope(
        self, h: Floats, aim: Aim, asked: tuple[Floats, Floats, Integers]
    ) -> tuple[float, Floats]:
        """Return the share of wrong answers, and the slope of its smooth form at h (k, M).

        `asked` are x A and x W0 of the samples x that answers are counted on, and their classes.
        """
        xa, plain, told = asked
        ha, temperature = h @ self._inverse, self._temperature
        inner = np.diag(1.0 / aim.weights) + ha @ h.T
        solved = np.linalg.solve(inner, np.eye(self._classes)[aim.labels] - h @ self._weights)
        near = xa @ h.T
        scores = plain + near @ solved
        rows = np.arange(len(told))
        others = scores.copy()
        others[rows, told] = -1e9
        top = others.max(axis=1, keepdims=True)
        soft = np.exp((others - top) / temperature)
        margin = top[:, 0] + temperature * np.log(soft.sum(axis=1)) - scores[rows, told]
        chance = 1 / (1 + np.exp(-np.clip(margin / temperature, -50, 50)))
        weight = -chance * (1 - chance) / temperature / len(told)
        of_scores = weight[:, None] * soft / soft.sum(axis=1, keepdims=True)
        of_scores[rows, told] = -weight
        of_solved = np.linalg.solve(inner, near.T @ of_scores)
        of_inner = -of_solved @ solved.T
        slope = (of_scores @ solved.T).T @ xa - of_solved @ self._weights.T
        slope += (of_inner + of_inner.T) @ ha
        return float((margin > 0).mean()), slope
