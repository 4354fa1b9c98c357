"""Robust mean of a round: each number's middle values, summed exactly.

See `learning.numerics.middle_sums` for the equation and what it needs.
"""

from __future__ import annotations

from math import fsum, sqrt

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.middle_sums import AnswerRows, middle_sum
from fleetledger.learning.numerics.weights import SumLimits, WeightSum
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.client_updates import Mean, UpdateFrame, sum_digest
from fleetledger.methods.training.exchange import Partial
from fleetledger.methods.training.robust import Robust
from fleetledger.runtime.count_words import count_of


class RankedSum:
    """Answers of a round, which are summed once all are there."""

    def __init__(self, frame: UpdateFrame, robust: Robust) -> None:
        self._frame = frame
        self._robust = robust
        self._rows = AnswerRows(frame.grid.size)
        self._samples = 0

    def add(self, payload: bytes, samples: int) -> None:
        """Take in an answer; raise `ContributionError` for none, `MethodError` for no room."""
        self._append(self._frame.values(payload))
        self._samples += samples

    def partial(self) -> Partial:
        """Return all answers (k, n), with their samples."""
        return Partial((self._samples,), (self._rows.whole(),))

    def join(self, other: Partial) -> None:
        """Take in the answers of another sum; raise `MethodError` for no room."""
        (samples,), (rows,) = other.numbers, other.arrays
        for row in rows.astype(np.int32, copy=False):
            self._append(row)
        self._samples += samples

    def mean(self) -> Mean:
        """Return the mean of the middle values; raise `MethodError` where there are none."""
        answers = len(self._rows)
        if not answers:
            raise MethodError("answers: the round has none; it needs one at least")
        cut = self._robust.cut(answers)
        left, grid = answers - 2 * cut, self._frame.grid
        flat = np.empty(grid.size, np.int64)
        apart = np.zeros(answers)
        steps, origin = self._frame.lengths, self._frame.norm.origin
        try:
            for place, rows in self._rows.blocks():
                flat[place] = middle_sum(rows, cut)
                away = (rows - flat[place] / left) * steps[place]
                apart += np.einsum("kb,kb->k", away, away)
            total = WeightSum(grid, SumLimits(answers))
            total.join(flat, left, left)
            arrays = total.mean()
        except (LearningError, OSError) as error:
            raise MethodError(f"answers: {error}") from error
        step = (flat / left - (origin if len(origin) else 0)) * steps
        length = float(np.dot(step, step))
        drift = sqrt(fsum(apart) / answers / length) if length > 0 else 0.0
        form = f"{self._frame.form.sum_form}, {cut} of {answers} cut at each end"
        digest = sum_digest(total, form)
        return Mean(arrays, digest, self._samples, drift, (_said(answers, cut),))

    def _append(self, values: npt.NDArray[np.int32]) -> None:
        try:
            self._rows.append(values)
        except OSError as error:
            raise MethodError(
                f"answers: no room for a file of all of a round ({error}); free some in the "
                "temporary folder, or set TMPDIR to another one"
            ) from error


def _said(answers: int, cut: int) -> str:
    """Return what was made of so many answers, in words."""
    if not cut:
        return f"it is the mean of {count_of(answers, 'answer')}, too few to leave any out"
    middle = answers - 2 * cut
    what = "their median" if middle <= 2 else f"the mean of the middle {middle}"
    return f"each number is {what} of {answers} values; each answer counts once"
