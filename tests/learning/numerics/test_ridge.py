"""Ridge regression against the pooled least-squares problem it solves."""

import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fleetledger.learning.errors import FeatureError, SingularError
from fleetledger.learning.numerics import blas
from fleetledger.learning.numerics.blas import one_blas_thread, platform_fingerprint
from fleetledger.learning.numerics.ridge import solve_ridge


def problem(samples: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(samples + columns)
    h = np.maximum(0, rng.normal(size=(samples, columns)))
    return h, np.eye(classes)[rng.integers(0, classes, samples)]


@pytest.mark.parametrize(("samples", "columns"), [(5, 1), (300, 64), (300, 130), (50, 200)])
@pytest.mark.parametrize("ridge", [1e-3, 10.0])
def test_the_weights_solve_the_least_squares_problem(samples, columns, ridge):
    h, y = problem(samples, columns, 4)
    stacked = np.concatenate([h, np.sqrt(ridge) * np.eye(columns)])
    targets = np.concatenate([y, np.zeros((columns, 4))])
    expected = np.linalg.lstsq(stacked, targets, rcond=None)[0]
    assert np.allclose(solve_ridge(h.T @ h, h.T @ y, ridge), expected, rtol=1e-7, atol=1e-10)


def test_the_inputs_are_left_as_they_were():
    h, y = problem(50, 20, 3)
    gram, correlation = h.T @ h, h.T @ y
    copies = gram.copy(), correlation.copy()
    solve_ridge(gram, correlation, 1.0)
    assert np.array_equal(gram, copies[0])
    assert np.array_equal(correlation, copies[1])


def test_the_bits_do_not_depend_on_the_threads_outside():
    h, y = problem(400, 300, 5)
    gram, correlation = h.T @ h, h.T @ y
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(solve_ridge(gram, correlation, 1.0).tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize("gram", [np.zeros((3, 3)), -np.eye(3), np.full((3, 3), np.nan)])
def test_a_system_that_is_not_positive_definite_names_the_ridge(gram):
    with pytest.raises(SingularError, match=r"ridge: G \+ 0 I is not positive definite"):
        solve_ridge(gram, np.ones((3, 1)), 0)


def test_shapes_that_disagree_are_named():
    with pytest.raises(FeatureError, match=r"gram \(3, 3\) and correlation \(2, 1\)"):
        solve_ridge(np.eye(3), np.ones((2, 1)), 1.0)


def test_blas_runs_on_one_thread_inside_the_block():
    with one_blas_thread():
        inside = [
            found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"
        ]
    assert inside
    assert set(inside) == {1}


def test_the_fingerprint_names_what_the_last_bits_depend_on():
    fingerprint = platform_fingerprint()
    assert fingerprint["numpy"] == np.__version__
    assert fingerprint["blas_threads"] == "1"
    assert "unknown" not in fingerprint.values()


def test_without_threadpoolctl_the_solve_works_and_the_fingerprint_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    monkeypatch.setattr(blas, "find_spec", lambda name: None)
    assert np.allclose(solve_ridge(np.eye(2), np.ones((2, 1)), 1.0), 0.5)
    assert blas.platform_fingerprint()["blas_threads"] == "unknown"
