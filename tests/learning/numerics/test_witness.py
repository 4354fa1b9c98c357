"""A vector that names whose Gram matrix is none, with a proof in Python's integers."""

import numpy as np
import pytest

from fleetledger.learning.numerics.triangles import pack_upper
from fleetledger.learning.numerics.witness import form_along, negative_direction

COLUMNS = 150


def honest(seed: int) -> np.ndarray:
    h = np.random.default_rng(seed).integers(0, 128, (20, COLUMNS))
    return h.T @ h


def lie(seed: int) -> np.ndarray:
    """A matrix that obeys every bound on pairs of its entries, and is indefinite."""
    signs = np.random.default_rng(seed).choice([-1, 1], (COLUMNS, COLUMNS))
    gram = np.triu(signs, 1) * (20 * 127**2)
    return gram + gram.T + np.eye(COLUMNS, dtype=np.int64) * 20 * 127**2


def slowly(gram: np.ndarray, vector: np.ndarray) -> int:
    exact = gram.astype(object)
    return int(vector.astype(object) @ (exact @ vector.astype(object)))


@pytest.mark.parametrize("liars", [1, 3])
def test_one_vector_names_every_liar_and_no_honest_part(liars):
    parts = [honest(seed) for seed in range(12)] + [lie(seed) for seed in range(liars)]
    vector = negative_direction(sum(parts).astype(float), 161_290.0)
    assert vector is not None
    assert np.abs(vector).max() <= 4096
    for number, gram in enumerate(parts):
        told = form_along(pack_upper(gram), vector)
        assert told == slowly(gram, vector)
        assert (told < 0) == (number >= 12)


def test_a_sum_of_samples_has_no_such_vector():
    gram = sum(honest(seed) for seed in range(3)).astype(float)
    assert negative_direction(gram, 161_290.0) is None
    assert negative_direction(np.eye(3), 0.0) is None


def test_a_form_of_large_numbers_is_exact():
    rng = np.random.default_rng(8)
    gram = rng.integers(-(2**46), 2**46, (40, 40))
    gram = np.triu(gram) + np.triu(gram, 1).T
    vector = rng.integers(-4096, 4097, 40)
    assert form_along(pack_upper(gram), vector) == slowly(gram, vector)
