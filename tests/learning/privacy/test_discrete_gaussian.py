"""Noise has exactly the distribution that privacy is computed from."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from fleetledger.learning.errors import PrivacyError
from fleetledger.learning.privacy.discrete_gaussian import discrete_gaussian, share_of

needs_opendp = pytest.mark.skipif(
    find_spec("opendp") is None,
    reason="pip install 'fleetledger[privacy]'",
)


def _expected(support, deviation):
    """Return the probability of each integer of `support`, by the definition."""
    every = np.arange(-int(40 * deviation) - 40, int(40 * deviation) + 41)
    total = np.exp(-(every**2) / (2 * deviation**2)).sum()
    return np.exp(-(support**2) / (2 * deviation**2)) / total


@needs_opendp
@pytest.mark.parametrize("deviation", [0.7, 2.5, 40.0])
def test_draws_fit_the_discrete_gaussian(deviation):
    stats = pytest.importorskip("scipy.stats")
    count = 20_000
    drawn = discrete_gaussian(count, deviation)
    edge = int(2.5 * deviation) + 1
    support = np.arange(-edge, edge + 1)
    expected = _expected(support, deviation)
    seen = np.array([(drawn == number).sum() for number in support], np.float64)
    inside = np.append(seen, count - seen.sum())
    told = np.append(expected, 1 - expected.sum()) * count
    # A right sampler fails one run in 10^6; one with the continuous deviation is far beyond.
    assert stats.chisquare(inside, told).pvalue > 1e-6
    wrong = _expected(support, deviation * 1.2)
    assert stats.chisquare(inside, np.append(wrong, 1 - wrong.sum()) * count).pvalue < 1e-6


@needs_opendp
def test_wide_noise_fits_a_normal_distribution_and_neighbours_are_independent():
    stats = pytest.importorskip("scipy.stats")
    for deviation in (3e5, 2.0**26):
        drawn = discrete_gaussian(4000, deviation)
        assert drawn.dtype == np.int64
        assert stats.kstest(drawn / deviation, "norm").pvalue > 1e-6
        assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.1
    assert len(np.unique(discrete_gaussian(70_000, 1e6)[-10:])) == 10  # of the last block, too


@needs_opendp
def test_shares_add_up_to_the_noise_of_all():
    members, deviation = 12, 30.0
    total = sum(discrete_gaussian(6000, share_of(deviation, members)) for _ in range(members))
    assert total.std() == pytest.approx(deviation, rel=0.06)


def test_no_deviation_is_no_noise():
    assert not discrete_gaussian(5, 0).any()


@pytest.mark.parametrize("deviation", [-1.0, float("nan"), float("inf"), 2.0**41])
def test_a_deviation_that_no_noise_has_is_refused(deviation):
    with pytest.raises(PrivacyError, match="deviation"):
        discrete_gaussian(3, deviation)


def test_a_share_too_small_for_the_sum_is_refused():
    with pytest.raises(PrivacyError, match="scale the numbers up"):
        share_of(8.0, 16)
