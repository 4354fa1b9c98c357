"""Client updates of a round: weights as integers on one grid, and their exact mean.

Both sides derive the grid from the weights that were sent. An update holds one tensor of integers
for each float tensor of the network, in one of two forms (`methods.training.update_forms`): the
weights, int32, or how far they have moved, int16. No image, label or name of a file is in it; the
number of samples per class travels in the contribution.

A method that offers the choice has a setting `upload: Upload = "int32"` and gives it to the frame
in both sides, `UpdateFrame(sent, settings.upload)`; everything else of the frame stays the same.
Where numbers are no weights (a Fisher diagonal), nothing was sent that they could differ from:
`UpdateFrame(zeros)`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.numerics.grids import Grid, Integers
from fleetledger.learning.numerics.norms import UpdateNorm
from fleetledger.learning.numerics.weights import SumLimits, WeightSum
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.client_drift import Spread, SpreadBlock, spread_partial
from fleetledger.methods.training.exchange import AnswerMeasure, CountedUpdate, Partial, Summing
from fleetledger.methods.training.private_updates import UpdatePrivacy
from fleetledger.methods.training.robust import NormBound
from fleetledger.methods.training.update_forms import FORMS, ClippedMoves, UpdateForm, Upload
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.tensors import plain_body
from fleetledger.schemas.values import Digest

Arrays = Mapping[str, npt.NDArray[Any]]

_HEADER_BYTES = 1 << 20
_TOGETHER = 32
_ROOM = 1 << 17
"""Values of a block of all answers that are added together: a MiB, which a cache holds."""
_WAITING_VALUES = 1 << 23
"""Of all answers that wait for each other."""
MOST_SAMPLES = (1 << 32) - 1
"""Of all updates of a round: int32 times as many fit 64 bits."""


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of a round's updates."""

    arrays: dict[str, npt.NDArray[np.float32]]
    aggregate: Digest
    """Of the exact sum: the same for any order of the updates."""
    samples: int
    client_drift: float
    remarks: tuple[str, ...] = ()
    """What of it is unusual."""
    measures: Mapping[Digest, AnswerMeasure] = field(default_factory=dict)
    """Of each answer by the digest of its payload, where all were held."""


class UpdateFrame:
    """What updates of a round look like: integers around the tensors that were sent."""

    def __init__(
        self, sent: Arrays, upload: Upload = "int32", privacy: UpdatePrivacy | None = None
    ) -> None:
        """With `privacy` updates are clipped differences, whatever `upload` says."""
        self.sent = sent
        self.form: UpdateForm = (
            FORMS[upload](sent) if privacy is None else ClippedMoves(sent, privacy)
        )
        self.bound: NormBound | None = None
        """How far an answer may lie from what was sent; None for no bound."""
        self._limit = _HEADER_BYTES + self.form.limit_bytes

    @property
    def grid(self) -> Grid:
        """The grid of the integers that are summed."""
        return self.form.grid

    def encode(self, arrays: Arrays, noise_seed: bytes = b"") -> bytes:
        """Return an answer; raises `NetworkError` and `RangeError` by name."""
        return self.form.encode(arrays, noise_seed)

    def framed(self, content: npt.NDArray[np.uint8]) -> bytes:
        """Return the answer whose numbers were written elsewhere, as `encode` writes them."""
        return self.form.framed(content)

    def values(self, payload: bytes) -> Integers:
        """Return the integers of an answer as the grid's flat array (n,), cut to the bound.

        Raises `ContributionError` naming what is wrong, for an answer that `check` refuses.
        """
        values = self.unbounded(payload)
        return values if self.bound is None else self.bound.kept(values, self.norm)

    def unbounded(self, payload: bytes) -> Integers:
        """Return the integers of an answer, however long it is; raise `ContributionError`."""
        try:
            return self.form.values(plain_body(payload, self._limit))
        except (SchemaError, LearningError) as error:
            raise ContributionError(f"answer: {error}") from error

    @cached_property
    def norm(self) -> UpdateNorm:
        """How far answers lie from what was sent, without running statistics, which follow data."""
        statistics = tuple(filter(is_buffer, self.sent))
        from_sent = self.form.steps_from_sent
        return UpdateNorm(self.grid, self.sent, steps_from_sent=from_sent, left_out=statistics)

    def arrays(self, payload: bytes) -> dict[str, npt.NDArray[np.float32]]:
        """Return the weights of an answer by name; raises as `values` does."""
        total = WeightSum(self.grid, SumLimits(1, 1))
        total.join(self.values(payload).astype(np.int64), 1, 1)
        return total.mean()

    @cached_property
    def lengths(self) -> npt.NDArray[np.float64]:
        """The step of every value of a flat array (n,), and 0 for those of running statistics."""
        steps = self.grid.steps.astype(np.float64)
        for name, place in self.grid.places.items():
            if is_buffer(name):
                steps[place] = 0
        return steps

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` unless the payload could be an answer."""
        self.values(payload)

    def summing(self, most: int, *, weighted: bool) -> UpdateSum:
        """Return the empty sum of so many updates at most, weighted by their samples or plain.

        Raises `MethodError` where their sum could not be exact.
        """
        return UpdateSum(self, most, weighted=weighted)

    def mean(self, updates: Sequence[CountedUpdate] | Summing, *, weighted: bool) -> Mean:
        """Return the mean of updates, at least one, weighted by their samples or plain.

        `updates` may be a sum that `summing` began. Others are read one after the other, so memory
        does not grow with their number. Raises `MethodError` where their sum could not be exact.
        """
        if isinstance(updates, UpdateSum):
            return updates.mean()
        assert isinstance(updates, Sequence)
        total = self.summing(len(updates), weighted=weighted)
        for answer in updates:
            total.add(answer.read(), answer.samples)
        return total.mean()


def partial_of(
    flat: npt.NDArray[np.int64],
    samples: Sequence[int],
    distances: Sequence[float],
    *,
    weighted: bool,
) -> Partial:
    """Return what an `UpdateSum` joins of answers that were summed elsewhere.

    `flat` (n,) is the sum of their integers, times their samples where it is weighted. Each has
    its number of samples and its squared distance from the weights that were sent.
    """
    shares = [count if weighted else 1 for count in samples]
    squares = [share * distance for share, distance in zip(shares, distances, strict=True)]
    numbers = (len(shares), sum(shares), sum(samples))
    return Partial(numbers, (flat,)) + spread_partial(sum(shares), squares)


class UpdateSum:
    """The exact sum of updates as they come; memory does not grow with their number."""

    def __init__(self, frame: UpdateFrame, most: int, *, weighted: bool) -> None:
        self._frame = frame
        self._weighted = weighted
        self._samples = 0
        most_samples = MOST_SAMPLES // max(1, most) if weighted else 1
        try:
            self._total = WeightSum(frame.grid, SumLimits(most, most_samples))
        except LearningError as error:
            raise MethodError(f"answers: {error}") from error
        from_sent = frame.form.steps_from_sent
        self._spread = Spread(frame.grid, frame.sent, steps_from_sent=from_sent)
        self._rows = _room(frame.grid, max(map(_width, self._spread.blocks), default=0))
        self._waiting: list[tuple[Integers, int]] = []

    def add(self, payload: bytes, samples: int) -> None:
        """Take in an answer; raise `ContributionError` for none, `MethodError` for too much.

        Some answers are added together, block by block: what they need stays in the cache.
        """
        values, share = self._frame.values(payload), samples if self._weighted else 1
        try:
            self._total.admit(values, share)
        except LearningError as error:
            raise MethodError(f"answers: {error}") from error
        self._samples += samples
        self._waiting.append((values, share))
        if len(self._waiting) == len(self._rows):
            self._settle()

    def _settle(self) -> None:
        """Add the answers that wait."""
        waiting, self._waiting = self._waiting, []
        shares = [share for _, share in waiting]
        distances = [0.0] * len(waiting)
        for block in self._spread.blocks if waiting else ():
            rows = self._rows[: len(waiting), : _width(block)]
            for row, (values, _) in zip(rows, waiting, strict=True):
                row[:] = values[block.place]
            self._total.add_rows(block.place, rows, shares)
            squares = self._spread.squares(block, rows)
            distances = [sum(pair) for pair in zip(distances, squares, strict=True)]
        for distance, share in zip(distances, shares, strict=True):
            self._spread.add(distance, share)

    def partial(self) -> Partial:
        """Return the sum (n,) with devices, weights and samples, and the spread."""
        self._settle()
        total = self._total
        numbers = (total.devices, total.samples, self._samples)
        return Partial(numbers, (total.flat,)) + self._spread.partial()

    def join(self, other: Partial) -> None:
        """Take in the updates of another sum; raise `MethodError` for too much."""
        own, spread = other.divided(3, 1)
        (devices, weights, samples), (flat,) = own.numbers, own.arrays
        try:
            self._total.join(flat.astype(np.int64, copy=False), devices, weights)
        except LearningError as error:
            raise MethodError(f"answers: {error}") from error
        self._spread.join(spread)
        self._samples += samples

    def mean(self, noise_seed: bytes = b"") -> Mean:
        """Return the mean of the updates; raise `MethodError` where there is none.

        Noise from the seed is added to the sum, where the form says so. The digest is that of the
        exact sum, and drift is measured without noise.
        """
        self._settle()
        try:
            mean = self._total.mean()
            drift = self._spread.relative_to(mean)
            noise = self._frame.form.noise(noise_seed)
            if noise is not None:
                mean = self._total.mean(noise)
        except LearningError as error:
            raise MethodError(f"answers: {error}") from error
        aggregate = sum_digest(self._total, self._frame.form.sum_form)
        return Mean(mean, aggregate, self._samples, drift)


def _width(block: SpreadBlock) -> int:
    return int(block.place.stop - block.place.start)


def _room(grid: Grid, width: int) -> npt.NDArray[np.float64]:
    """Return room for a block of the answers that are added together (k, b)."""
    together = min(_TOGETHER, _ROOM // max(1, width), _WAITING_VALUES // max(1, grid.size))
    return np.empty((max(1, together), width), np.float64)


def sum_digest(total: WeightSum, form: str) -> Digest:
    """Return the SHA-256 of the sum's one form: tensors by name, integers little-endian."""
    header = {
        "form": form,
        "samples": total.samples,
        "tensors": {
            name: [total.grid.exponents[name], *shape]
            for name, shape in sorted(total.grid.shapes.items())
        },
    }
    digest = hashlib.sha256(canonical_json(header) + b"\n")
    for name in sorted(total.sums):
        digest.update(total.sums[name].astype("<i8", copy=False).data)
    return Digest(digest.hexdigest())
