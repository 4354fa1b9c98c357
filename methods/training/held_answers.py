"""Answers of a round that are all held until its end: robust means, and each beside the others.

Where the mean is robust, see `learning.numerics.middle_sums` for it; else it is that of
`client_updates`, to the last bit. `answer_measuring` says how each answer lies beside the others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.answer_rows import AnswerRows
from fleetledger.learning.numerics.grids import Integers
from fleetledger.learning.numerics.middle_sums import middle_sum
from fleetledger.learning.numerics.weights import SumLimits, WeightSum
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.answer_measuring import AnswerMeasuring
from fleetledger.methods.training.client_updates import (
    MOST_SAMPLES,
    Mean,
    UpdateFrame,
    sum_digest,
)
from fleetledger.methods.training.exchange import AnswerMeasure, Partial
from fleetledger.methods.training.robust import Robust
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.schemas.values import Digest

Floats = npt.NDArray[np.float64]

_EXACT_SHARES = 1 << 22
"""So many times 2^31 is 2^53."""


class HeldAnswers:
    """Answers of a round, which become one once all are there."""

    def __init__(self, frame: UpdateFrame, robust: Robust, *, weighted: bool) -> None:
        """Weigh answers by their samples where the mean is no robust one, or alike."""
        self._frame = frame
        self._robust = robust
        self._weighted = weighted and not robust.needs_all
        self._rows = AnswerRows(frame.grid.size)
        self._samples: list[int] = []
        self._digests: list[Digest] = []
        self._norms: list[float] = []
        """Before anything is cut."""

    def add(self, payload: bytes, samples: int) -> None:
        """Take in an answer; raise `ContributionError` for none, `MethodError` for no room."""
        values, norm = self._frame.unbounded(payload), self._frame.norm
        length = norm.length(norm.moved(values))
        if self._frame.bound is not None:
            values = self._frame.bound.kept(values, norm)
        self._append(values)
        self._samples.append(samples)
        self._digests.append(Digest.of(payload))
        self._norms.append(length)

    def partial(self) -> Partial:
        """Return all answers (k, n) with their lengths, and samples and digests."""
        digests = (int(digest, 16) for digest in self._digests)
        return Partial(
            (*self._samples, *digests), (self._rows.whole(), np.array(self._norms, np.float64))
        )

    def join(self, other: Partial) -> None:
        """Take in the answers of another sum; raise `MethodError` for no room."""
        rows, norms = other.arrays
        self._samples += other.numbers[: len(rows)]
        self._digests += (Digest(f"{number:064x}") for number in other.numbers[len(rows) :])
        self._norms += norms.tolist()
        for row in rows.astype(np.int32, copy=False):
            self._append(row)

    def mean(self) -> Mean:
        """Return what the answers become; raise `MethodError` where there are none."""
        answers = len(self._rows)
        if not answers:
            raise MethodError("answers: the round has none; it needs one at least")
        order = sorted(range(answers), key=self._key)  # what came first does not matter
        shares = np.array(self._samples if self._weighted else [1] * answers, np.int64)[order]
        measuring = AnswerMeasuring(self._frame, shares, self._counted_lengths()[order])
        cut, ranked = self._robust.cut(answers), self._robust.needs_all
        flat = np.empty(self._frame.grid.size, np.int64)
        count = answers - 2 * cut if ranked else int(shares.sum())
        try:
            total = WeightSum(self._frame.grid, SumLimits(answers, MOST_SAMPLES // answers))
            for place, came in self._rows.blocks():
                rows = came[order]
                numbers = rows.astype(np.float64)
                block = middle_sum(rows, cut) if ranked else _weighted(rows, numbers, shares)
                flat[place] = block
                measuring.add(place, numbers, block / count)
            total.join(flat, answers - 2 * cut, count)
            arrays = total.mean()
        except (LearningError, OSError) as error:
            raise MethodError(f"answers: {error}") from error
        form = self._frame.form.sum_form
        return Mean(
            arrays,
            sum_digest(total, f"{form}, {cut} of {answers} cut at each end" if ranked else form),
            sum(self._samples),
            measuring.drift(),
            remarks=self._remarks(answers, cut),
            measures={
                self._digests[place]: AnswerMeasure(self._norms[place], cosine)
                for place, cosine in zip(order, measuring.cosines(), strict=True)
            },
        )

    def _key(self, place: int) -> tuple[Digest, int]:
        return self._digests[place], self._samples[place]

    def _counted_lengths(self) -> Floats:
        """Return how long each move is as it counts."""
        bound = self._frame.bound
        return np.minimum(self._norms, np.inf if bound is None else bound.most)

    def _remarks(self, answers: int, cut: int) -> tuple[str, ...]:
        """Return what was made of the answers, in words; nothing of a plain mean."""
        said = []
        if self._robust.needs_all:
            what = "the median" if answers - 2 * cut <= 2 else f"the mean without {cut} at each end"
            said.append(f"each number is {what} of {count_of(answers, 'answer')} that count alike")
        most = self._robust.max_norm
        longer = 0 if most is None else sum(norm > most for norm in self._norms)
        if longer and self._frame.bound is not None:
            said.append(
                f"{count_of(longer, 'answer')} moved farther than {most:g}, and "
                f"{agree(longer, 'counts', 'count')} less"
            )
        return tuple(said)

    def _append(self, values: Integers) -> None:
        try:
            self._rows.append(values)
        except OSError as error:
            raise MethodError(
                f"answers: no room for a file of all of a round ({error}); free some in the "
                "temporary folder, or set TMPDIR to another one"
            ) from error


def _weighted(
    rows: Integers, numbers: Floats, shares: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the sum of rows (k, b) times their shares; `numbers` are the rows as floats."""
    if int(shares.sum()) <= _EXACT_SHARES:
        return (shares.astype(np.float64) @ numbers).astype(np.int64)
    found: npt.NDArray[np.int64] = shares @ rows.astype(np.int64)
    return found
