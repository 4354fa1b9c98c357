"""How far samples move a ridge regression of others, from their moments alone.

For the others' G0, P0 of N0 samples, W0 = (G0 + lambda I)^-1 P0, and a part's G, P of n samples:

    r = (n - 2 tr W0^T P + tr W0^T G W0) / n          mean squared residual of the part under W0
    D = tr (W1 - W0)^T G0 (W1 - W0) / N0              mean squared move of the others' scores
    q = sqrt(D) (N0 + n) / n / sqrt(1 + df / n)       that move in units of the part's weight

The last factor of q is chance: what n samples of the others' own kind move a ridge regression by
grows with its degrees of freedom df = tr G0 (G0 + lambda I)^-1, estimated by random signs z as
M - lambda |L^-1 z|^2 (Hutchinson 1990).

W1 is solved with the part. With E = P - G W0 it is W0 + (G0 + lambda I + G)^-1 E, so D is at most
|L^-1 E|^2 / N0 for the factor L of G0 + lambda I. A wrong label that is told with full certainty
has r = 2, a class that nobody knew 1. r can be diluted by honest samples among others, D cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import SingularError
from fleetledger.learning.numerics.blas import one_blas_thread
from fleetledger.learning.numerics.blocked_factor import BlockedFactor
from fleetledger.learning.numerics.ridge import solve_ridge

Floats = npt.NDArray[np.float64]

_SIGNS = 16
"""Vectors of random signs, the same for everybody, that a trace is estimated by."""


@dataclass(frozen=True, eq=False)
class Moments:
    """G (M x M) and P (M x C) of a number of samples, in float64."""

    gram: Floats
    sums: Floats
    samples: int
    exact: bool = False
    """Whether no number was rounded to float64: differences of such moments are exact, too."""

    def without(self, part: Moments) -> Moments:
        """Return the moments of the other samples; both have to be exact."""
        gram, sums = self.gram - part.gram, self.sums - part.sums
        return Moments(gram, sums, self.samples - part.samples, exact=True)


@dataclass(frozen=True)
class Influence:
    """Figures r, q and D of a part, as the module tells."""

    residual: float
    pull: float
    move: float

    def within(self, other: Influence) -> bool:
        """Return whether no figure exceeds the other's."""
        return (
            self.residual <= other.residual and self.pull <= other.pull and self.move <= other.move
        )


class OthersModel:
    """The model of all samples but those that are judged by it.

    Raises `SingularError` where it has no stable solution.
    """

    def __init__(self, others: Moments, ridge: float) -> None:
        self._others, self._ridge = others, ridge
        with one_blas_thread():
            self._factor = BlockedFactor(others.gram, ridge)
            width, classes = others.sums.shape
            signs = np.random.default_rng(0).choice(np.array([-1.0, 1.0]), (width, _SIGNS))
            forward = self._factor.forward(np.hstack([others.sums, signs]))
            self.weights = self._factor.back(forward[:, :classes])
            inverse = float(np.square(forward[:, classes:]).sum()) / _SIGNS
        self._freedom = max(0.0, width - ridge * inverse)

    def influence(self, part: Moments, most: Influence) -> Influence:
        """Return the figures of a part; D and q are bounds where these stay within `most`."""
        count, others = part.samples, self._others
        with one_blas_thread():
            moved = part.gram @ self.weights
            error = part.sums - moved
            agreement = float(np.sum(self.weights * (2 * part.sums - moved)))
            residual = max(0.0, count - agreement) / count
            bound = float(np.square(self._factor.forward(error)).sum()) / others.samples
        found = self._figures(residual, bound, count)
        if found.within(most):
            return found
        try:
            change = solve_ridge(others.gram + part.gram, error, self._ridge)
        except SingularError:
            return found  # the part's G is none of samples; the bound says as much
        with one_blas_thread():
            move = float(np.sum(change * (others.gram @ change))) / others.samples
        return self._figures(residual, min(max(move, 0.0), bound), count)

    def _figures(self, residual: float, move: float, count: int) -> Influence:
        share = count / (count + self._others.samples)
        return Influence(residual, sqrt(move) / share / sqrt(1 + self._freedom / count), move)
