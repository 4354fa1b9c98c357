"""Asynchronous averaging: answers that began from weights of several versions, summed exactly.

    FedBuff    theta <- theta + eta sum_k s_k n_k (theta_k - theta_b(k)) / sum_k n_k
    FedAsync   theta <- theta + eta sum_k s_k n_k (theta_k - theta) / sum_k n_k

theta are the newest weights, theta_b(k) those that answer k began from, and s_k <= 1 is what it
counts by their age, an integer over 256. n_k are its samples, or 1 for the plain mean; the sum of
s_k is no divisor, so an old answer is a short step. Answers of one version lie on one grid, whose
integers are summed as in any round. What is subtracted is rounded to that grid once, so a device
that did not move adds nothing. Sums of several grids meet on the finest one:

    T = sum_b s_b (S_b - N_b round(theta_b / 2^e_b)) 2^(e_b - e)     integers, proven to fit int64

T does not depend on the order of answers, and what follows is the same float64 on every machine.
Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022; Xie,
Koyejo and Gupta, "Asynchronous Federated Optimization", 2019.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.numerics.grids import is_variance
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.client_updates import Mean, UpdateFrame
from fleetledger.methods.training.exchange import BufferStep, Partial
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.rounds import STALENESS_STEPS
from fleetledger.schemas.values import Digest

Arrays = Mapping[str, npt.NDArray[Any]]
Integers64 = npt.NDArray[np.int64]

_MOST = 2**62
"""Below which a term is added, so that no sum leaves int64."""
_STEPS_EXPONENT = STALENESS_STEPS.bit_length() - 1


@dataclass(frozen=True, eq=False)
class StaleSum:
    """The exact sum of answers that began from one version."""

    frame: UpdateFrame
    weight: int
    """What each counts by its age, of `STALENESS_STEPS`."""
    total: Partial
    """As `UpdateSum.partial` gives it."""

    @property
    def count(self) -> int:
        """The sum of n_k."""
        return self.total.numbers[1]

    def difference(self, name: str, reference: npt.NDArray[Any]) -> Integers64:
        """Return the sum of n_k (theta_k - reference) of a tensor, in steps of the grid."""
        grid, form = self.frame.grid, self.frame.form
        from_zero = -reference.astype(np.float64)
        if form.steps_from_sent:
            from_zero += self.frame.sent[name]
        offset = np.rint(np.ldexp(from_zero, -grid.exponents[name]))
        summed = self.total.arrays[0][grid.places[name]].reshape(grid.shapes[name])
        _check(name, _largest(offset) * self.count + _largest(summed))
        found: Integers64 = summed + offset.astype(np.int64) * np.int64(self.count)
        return found


@dataclass(frozen=True, eq=False)
class _Step:
    """The sum of a tensor over all versions: integers times a power of two."""

    integers: Integers64
    exponent: int

    def over(self, count: int) -> npt.NDArray[np.float64]:
        """Return it divided by the sum of n_k."""
        return np.asarray(np.ldexp(self.integers / float(count), self.exponent))


def moved(newest: Arrays, step: BufferStep, parts: Sequence[StaleSum]) -> Mean:
    """Return the newest weights, moved by the sums of each version, at least one.

    Raises `MethodError` where a sum could not be exact, or a version has other tensors.
    """
    for part in parts:
        if part.frame.grid.shapes != parts[0].frame.grid.shapes:
            raise MethodError("answers: they began from networks of other shapes")
    names = sorted(parts[0].frame.grid.shapes)
    steps = {name: _summed(name, newest if step.mixes else None, parts) for name in names}
    count = sum(part.count for part in parts)
    arrays = {name: _after(name, newest[name], steps[name], step, count) for name in names}
    return Mean(
        arrays=arrays,
        aggregate=_digest(steps, count),
        samples=sum(part.total.numbers[2] for part in parts),
        client_drift=_drift(parts, count),
    )


def _summed(
    name: str, reference: Arrays | None, parts: Sequence[StaleSum], *, weighted: bool = True
) -> _Step:
    """Return the sum of a tensor around `reference`, or around what each version was sent."""
    finest = min(part.frame.grid.exponents[name] for part in parts)
    total, most = np.int64(0), 0
    for part in parts:
        around = part.frame.sent if reference is None else reference
        found = part.difference(name, around[name])
        factor = part.weight if weighted else STALENESS_STEPS
        factor <<= part.frame.grid.exponents[name] - finest
        most += _largest(found) * factor
        _check(name, most)
        total = total + found * np.int64(factor)
    return _Step(np.asarray(total, np.int64), finest - _STEPS_EXPONENT)


def _after(
    name: str, newest: npt.NDArray[Any], found: _Step, step: BufferStep, count: int
) -> npt.NDArray[np.float32]:
    """Return a tensor after the step; no variance falls below zero."""
    after = newest + step.rate * found.over(count)
    if is_variance(name):
        after = np.maximum(after, 0.0)
    return after.astype(np.float32)


def _drift(parts: Sequence[StaleSum], count: int) -> float:
    """Return how far answers lie apart, relative to their mean step: `client_drift`."""
    names = (name for name in parts[0].frame.grid.shapes if not is_buffer(name))
    means = (_summed(name, None, parts, weighted=False).over(count) for name in names)
    step = fsum(float(np.sum(mean * mean)) for mean in means)
    squares = fsum(float(one) for part in parts for one in part.total.arrays[1])
    return sqrt(max(0.0, squares / count - step) / step) if step > 0 else 0.0


def _digest(steps: Mapping[str, _Step], count: int) -> Digest:
    """Return the SHA-256 of the sum's one form: tensors by name, integers little-endian."""
    tensors = {name: [one.exponent, *one.integers.shape] for name, one in steps.items()}
    header = {"form": "stale-sum-1", "samples": count, "tensors": tensors}
    digest = hashlib.sha256(canonical_json(header) + b"\n")
    for name in sorted(steps):
        digest.update(steps[name].integers.astype("<i8", copy=False).tobytes())
    return Digest(digest.hexdigest())


def _largest(values: npt.NDArray[Any]) -> int:
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def _check(name: str, most: int) -> None:
    if most >= _MOST:
        raise MethodError(
            f"answers: the sum of {name!r} could leave 64 bits; take a smaller buffer, or train "
            "with a lower rate"
        )
