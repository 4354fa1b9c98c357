"""Logits on the shared set as they travel, and their exact weighted sum.

    float16   half precision; the bits, since files have no such type
    int8      whole steps of 2^e, the finest that hold the largest logit; one e for all

Either is a whole number of steps of 2^-24 below 2^40, so the ensemble is an exact sum of integers

    zbar = sum_m omega_m z_m,   omega_m = N_m / N, or 1 / M

rounded once, where it is divided. NaN, infinity and what is larger are refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.exact_sum import ScaledIntegers, smallest_exponent
from fleetledger.learning.numerics.exactness import prove_sum
from fleetledger.methods.dcid.settings import LogitForm
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.exchange import Partial
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.tensors import Expected
from fleetledger.schemas.values import Digest

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Arrays = Mapping[str, npt.NDArray[np.generic]]

LOGITS, EXPONENT = "logits", "logits-exponent"

FINEST = -24
"""Exponent of the steps that are summed: half precision has none finer."""
_COARSEST = 9
_LARGEST = 1 << 40
"""Above every logit that can travel, in these steps."""
MOST_SAMPLES = 1 << 22
"""Of all sites of a round: so many times `_LARGEST` fits 63 bits."""


@dataclass(frozen=True)
class LogitFrame:
    """What logits look like: one row for each image of S, one column for each class."""

    images: int
    classes: int
    form: LogitForm

    @property
    def size(self) -> int:
        """Bytes of the numbers."""
        return self.images * self.classes * (2 if self.form == "float16" else 1) + 4

    def expected(self) -> dict[str, Expected]:
        """Return the tensors of the file."""
        shape = (self.images, self.classes)
        if self.form == "float16":
            return {LOGITS: Expected("int16", shape)}
        return {LOGITS: Expected("int8", shape), EXPONENT: Expected("int32", (1,))}

    def encode(self, logits: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.generic]]:
        """Return the tensors of logits (S, C); raise `MethodError` where training diverged."""
        if logits.shape != (self.images, self.classes) or not np.isfinite(logits).all():
            raise MethodError(
                f"logits: {logits.shape}, not all of them finite numbers of shape "
                f"{(self.images, self.classes)}; training has diverged: lower the rate"
            )
        if self.form == "float16":
            return {LOGITS: half_bits(logits)}
        largest = float(np.abs(logits).max(initial=0))
        try:
            exponent = smallest_exponent(largest, 8, FINEST, _COARSEST)
            steps = ScaledIntegers.rounded(logits.astype(np.float64), exponent, 8)
        except LearningError as error:
            raise MethodError(f"logits: lower the rate; {error}") from error
        return {
            LOGITS: steps.values.astype(np.int8),
            EXPONENT: np.array([exponent], np.int32),
        }

    def steps(self, tensors: Arrays) -> Integers:
        """Return logits in steps of 2^-24, int64 (S, C).

        Raises `ContributionError` for numbers that are not finite, and for a foreign exponent.
        """
        stored = tensors[LOGITS]
        if self.form == "float16":
            halves = half_numbers(stored)
            return np.ldexp(halves.astype(np.float64), -FINEST).astype(np.int64)
        exponent = int(tensors[EXPONENT].astype(np.int64)[0])
        if not FINEST <= exponent <= _COARSEST:
            raise ContributionError(
                f"{EXPONENT}: {exponent}; give {FINEST} to {_COARSEST}, as `encode` does"
            )
        return np.asarray(stored.astype(np.int64) << np.int64(exponent - FINEST))


def half_bits(numbers: npt.NDArray[np.floating]) -> npt.NDArray[np.int16]:
    """Return the bits of numbers in half precision; raise `MethodError` beyond its range."""
    with np.errstate(over="ignore"):
        halves = numbers.astype(np.float16)
    if not np.isfinite(halves).all():
        raise MethodError(
            f"logits: up to {np.abs(numbers).max():.4g}, and half precision ends at 65504; lower "
            "the rate"
        )
    return halves.view(np.int16)


def half_numbers(bits: npt.NDArray[np.generic]) -> npt.NDArray[np.float16]:
    """Return the numbers of their bits; raise `ContributionError` for NaN and infinity."""
    halves = bits.astype(np.int16, copy=False).view(np.float16)
    if not np.isfinite(halves).all():
        raise ContributionError("logits: not all of them are finite; train with a lower rate")
    return halves


class LogitSum:
    """The exact weighted sum of sites' logits as they come."""

    def __init__(self, frame: LogitFrame) -> None:
        prove_sum("logits", _LARGEST, 0, MOST_SAMPLES)
        self._sums = np.zeros((frame.images, frame.classes), np.int64)
        self.weight = 0

    def add(self, steps: Integers, weight: int) -> None:
        """Take in a site's logits; raise `MethodError` for more samples than were proven to fit."""
        if weight < 1:
            raise MethodError(f"samples: {weight} of a site; it has one at least")
        self._refuse_more(weight)
        self._sums += np.int64(weight) * steps
        self.weight += weight

    def partial(self) -> Partial:
        """Return the sums (S, C) and their weight."""
        return Partial((self.weight,), (self._sums,))

    def join(self, other: Partial) -> None:
        """Take in another sum on the same images; raise `MethodError` as `add` does."""
        (weight,), (sums,) = other.numbers, other.arrays
        self._refuse_more(weight)
        self._sums += sums.astype(np.int64, copy=False)
        self.weight += weight

    def mean(self) -> Floats:
        """Return zbar (S, C); raise `MethodError` without an answer."""
        if not self.weight:
            raise MethodError("answers: there is none; an ensemble needs one at least")
        return np.ldexp(self._sums / float(self.weight), FINEST)

    def digest(self) -> Digest:
        """Return the SHA-256 of the sum's one form: the same for any order of the answers."""
        header = {"form": "logits-sum-1", "shape": self._sums.shape, "weight": self.weight}
        content = canonical_json(header) + b"\n" + self._sums.astype("<i8", copy=False).tobytes()
        return Digest(hashlib.sha256(content).hexdigest())

    def _refuse_more(self, weight: int) -> None:
        if weight > MOST_SAMPLES - self.weight:
            raise MethodError(
                f"samples: {weight} beside {self.weight} of other sites; an ensemble is exact for "
                f"{MOST_SAMPLES} in all: ask fewer sites, or set omega to 'uniform'"
            )
