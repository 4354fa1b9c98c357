"""Threads of NumPy's BLAS."""

import sys

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from fleetledger.learning.numerics.blas import numpy_on_one_thread


def threads() -> list[int]:
    found = [library for library in threadpool_info() if "numpy" in library["filepath"]]
    return [library["num_threads"] for library in found if library["user_api"] == "blas"]


def test_numpy_computes_on_one_thread_inside_the_block_and_on_as_many_as_before_after_it():
    assert np.dot(np.ones(2), np.ones(2)) == 2
    with threadpool_limits(2, user_api="blas"):
        with numpy_on_one_thread():
            assert set(threads()) == {1}
        assert set(threads()) == {2}


def test_without_threadpoolctl_the_block_runs_all_the_same(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    before = threads()
    with numpy_on_one_thread():
        assert threads() == before
