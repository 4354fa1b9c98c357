"""A factor in blocks is LAPACK's, but for the last bits."""

import numpy as np
import pytest

from fleetledger.learning.errors import SingularError
from fleetledger.learning.numerics.blocked_factor import BlockedFactor

WIDTHS = (1, 63, 64, 65, 200)


def gram(width: int, samples: int) -> np.ndarray:
    h = np.random.default_rng(width).normal(size=(samples, width)) * np.logspace(0, 4, width)
    return h.T @ h


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("samples", [3, 500])
def test_solutions_are_those_of_lapack(width, samples):
    """Features lie four orders of magnitude apart, and three samples give almost no rank."""
    system = gram(width, samples) + np.eye(width)
    right = np.random.default_rng(2).normal(size=(width, 3))
    factor, lower = BlockedFactor(gram(width, samples), 1.0), np.linalg.cholesky(system)
    forward = factor.forward(right)
    lengths = np.square(np.linalg.solve(lower, right)).sum()
    assert np.square(forward).sum() == pytest.approx(lengths, rel=1e-6)
    found, error = factor.back(forward), np.linalg.norm(system, 2) * np.finfo(float).eps
    assert np.abs(system @ found - right).max() <= 100 * error * np.abs(found).max()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_what_has_no_factor_is_named(width, value):
    system = np.eye(width)
    system[-1, -1] = value
    with pytest.raises(SingularError, match="not positive definite"):
        BlockedFactor(system, 0.5)
