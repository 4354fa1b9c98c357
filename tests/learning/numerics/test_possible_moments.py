"""Moments of real samples pass, however extreme; what no samples have does not."""

import numpy as np
import pytest

from fleetledger.learning.errors import MomentsError
from fleetledger.learning.numerics.possible_moments import (
    check_integer_moments,
    check_scatter,
    least_squares,
    rounding_room,
)
from tests.learning.numerics.extreme_samples import NAMES, RANGES, extreme_samples


def moments(h: np.ndarray, classes: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return G (float64), P^T and the counts of features (n, M)."""
    _, index = np.unique(np.asarray(classes), return_inverse=True)
    counts = np.bincount(index)
    sums = np.zeros((len(counts), h.shape[1]), np.int64)
    np.add.at(sums, index, h)
    exact = h.astype(np.float64)
    return exact.T @ exact, sums, counts


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ends", RANGES)
def test_moments_of_extreme_samples_pass(ends, name):
    for label, h, classes in extreme_samples(ends, 60):
        if label == name:
            check_integer_moments(*moments(h, classes), ends)


@pytest.mark.nightly
@pytest.mark.parametrize("ends", RANGES)
def test_moments_of_extreme_samples_pass_at_the_default_width(ends):
    for _, h, classes in extreme_samples(ends, 1250):
        check_integer_moments(*moments(h, classes), ends)


def test_the_room_for_rounding_is_small_beside_any_ridge():
    """At a part of 1,000 samples of 1,250 features it is far below the least ridge, 16."""
    assert 1e-6 < rounding_room(1000 * 1250 * 127.0**2 / 4, 1250, 100) < 0.005


def honest() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return moments(rng.integers(0, 128, (50, 40)), np.arange(50) % 5)


def shifted(i: int, j: int, by: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    gram, sums, counts = honest()
    gram[i, j] += by
    if i != j:
        gram[j, i] += by
    return gram, sums, counts


def indefinite() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One sample of zeros, with the largest entries of either sign: it obeys all pairs."""
    rng = np.random.default_rng(1)
    gram = np.triu(rng.choice([-1, 1], (40, 40)), 1) * 127.0**2
    return gram + gram.T + np.eye(40) * 127**2, np.zeros((1, 40), np.int64), np.ones(1, np.int64)


def even_and_indefinite() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A diagonal that class sums and parity allow, and a sign pattern that no vectors have."""
    n, columns = 40, 40
    signs = np.where(np.random.default_rng(2).random((columns, columns)) < 0.5, 0.1, 0.9)
    gram = np.rint(np.triu(signs, 1) * n * 64 * 127)
    gram = gram + gram.T + np.eye(columns) * n * 64 * 126
    return gram, np.full((1, columns), n * 64), np.array([n])


def nothing_beside_sums() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros((40, 40)), np.full((1, 40), 127 * 10), np.array([10])


def too_little_beside_sums() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least diagonal, and products below what the means give: energy in no direction."""
    gram, sums, counts = honest()
    squares = least_squares(sums, counts).sum(axis=0)
    return gram - np.diag(np.diagonal(gram)) + np.diag(squares), sums, counts


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (indefinite, "on the diagonal at 0"),
        (even_and_indefinite, "negative in some direction"),
        (nothing_beside_sums, "gram: 0 on the diagonal at 0"),
        (too_little_beside_sums, "negative in some direction"),
        (lambda: shifted(3, 3, 1), "on the diagonal at 3; samples with a sum of"),
        (lambda: shifted(3, 7, 90_000), "negative in some direction"),
        (lambda: shifted(3, 7, 10**6), "gram: .* for features 3 and 7"),
        (lambda: shifted(3, 7, -(10**6)), "gram: .* for features 3 and 7"),
    ],
)
def test_what_no_samples_have_is_refused(made, message):
    with pytest.raises(MomentsError, match=message):
        check_integer_moments(*made(), (0, 127))


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize(("i", "j"), [(63, 64), (64, 90), (149, 0)])
def test_the_first_pair_that_no_samples_have_is_named_with_its_bounds(ends, i, j):
    low, high = ends
    gram, sums, counts = moments(
        np.random.default_rng(5).integers(low, high, (50, 150), endpoint=True), np.arange(50) % 5
    )
    total, samples = sums.sum(axis=0), int(counts.sum())
    gram[i, j] = gram[j, i] = 10**7
    i, j = sorted((i, j))
    most = min(high * total[a] - samples * low * high + low * total[b] for a, b in ((i, j), (j, i)))
    with pytest.raises(MomentsError, match=f"features {i} and {j}; samples .* to {most}$"):
        check_integer_moments(gram, sums, counts, ends)


def test_the_scatter_alone_refuses_every_indefinite_triangle():
    for made in (indefinite, even_and_indefinite, too_little_beside_sums):
        gram, sums, counts = made()
        with pytest.raises(MomentsError, match="negative in some direction"):
            check_scatter(gram, sums.astype(float), counts.astype(float))


def test_the_least_sum_of_squares_is_that_of_integers_as_equal_as_can_be():
    rng = np.random.default_rng(3)
    for count in (1, 2, 7):
        h = rng.integers(-9, 10, (count, 200))
        sums = h.sum(axis=0)
        equal = np.array([[(s + i) // count for s in sums] for i in range(count)])
        assert np.array_equal(equal.sum(axis=0), sums)
        told = least_squares(sums[None], np.array([count]))[0]
        assert np.array_equal(told, (equal**2).sum(axis=0))
        assert (told <= (h**2).sum(axis=0)).all()
