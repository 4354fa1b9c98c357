"""Whoever computes the large products of statistics in place of NumPy: a GPU, where one is.

Statistics are computed and solved deep inside of methods, on devices, in the coordinator and in a
simulation alike, and what computes them changes no integer. So it is a fact of the process, as the
number of threads of BLAS is, and not an argument of every function on the way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Accelerator(Protocol):
    """Products, factors and solves of large matrices."""

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """What the last bits of its floating-point results depend on."""

    def gram_triangle(self, features: npt.NDArray[np.float32], rows: int) -> Integers:
        """Return the upper triangle of H^T H, row by row; exact.

        `features` H (n x M) holds integers of which `rows` products add up exactly in float32.
        """

    def factor(self, features: npt.NDArray[np.floating]) -> Floats:
        """Return R (min(n, M) x M, upper trapezoid) of H = Q R for `features` H (n x M)."""

    def solve(self, system: Floats, right: Floats) -> Floats | None:
        """Return X of `system` X = `right`; None where the system is not positive definite."""


_present: list[Accelerator] = []


def accelerator() -> Accelerator | None:
    """Return who computes here in place of NumPy; None where NumPy does."""
    return _present[-1] if _present else None


@contextmanager
def accelerated_by(one: Accelerator | None) -> Iterator[None]:
    """Let `one` compute for the block, in all threads of this process; None changes nothing."""
    if one is None:
        yield
        return
    _present.append(one)
    try:
        yield
    finally:
        _present.remove(one)


_waited = [0.0]


@contextmanager
def waited_for() -> Iterator[None]:
    """Count the block's seconds as waiting for what an accelerator may still compute."""
    began = time.perf_counter()
    try:
        yield
    finally:
        _waited[0] += time.perf_counter() - began


def taken_waits(most: float) -> float:
    """Return the seconds that this process has waited, `most` at most; they are counted no more."""
    taken = min(most, _waited[0])
    _waited[0] -= taken
    return taken
