"""What torch computes of statistics: NumPy's integers, and its floats but for the last bits."""

import numpy as np
import pytest

from fleetledger.learning.errors import SingularError, TrainingError
from fleetledger.learning.numerics.accelerator import accelerated_by, accelerator
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.learning.numerics.compact import factor
from fleetledger.learning.numerics.gram import gram_triangle
from fleetledger.learning.numerics.ridge import solve_ridge
from fleetledger.learning.numerics.triangles import pack_upper

pytestmark = pytest.mark.torch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def faster(request):
    import torch

    from fleetledger.learning.training.torch_accelerator import TorchAccelerator

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    return TorchAccelerator(request.param)


def integers(rows: int, columns: int, largest: int) -> np.ndarray:
    draws = np.random.default_rng(7).integers(-largest, largest, (rows, columns), endpoint=True)
    return draws.astype(np.float32)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 7), (2000, 40), (70, 300)])
@pytest.mark.parametrize("largest", [1, 127, 4096])
def test_a_gram_matrix_of_integers_is_that_of_integers(shape, largest, faster):
    H = integers(*shape, largest)
    with accelerated_by(faster):
        given = gram_triangle(H, largest)
    assert given.dtype == np.int64
    exact = H.astype(np.int64)
    assert np.array_equal(given, pack_upper(exact.T @ exact))
    assert np.array_equal(given, gram_triangle(H, largest))


@pytest.mark.parametrize("shape", [(40, 12), (5, 12)])
def test_a_factor_gives_the_gram_matrix_back(shape, faster):
    H = np.random.default_rng(1).normal(size=shape)
    with accelerated_by(faster):
        R = factor([H.astype(np.float64)], H.shape[1])
    assert R.shape == (min(shape), 12)
    assert np.array_equal(R, np.triu(R))
    assert np.allclose(R.T @ R, H.T @ H, rtol=0, atol=1e-12)


def test_a_solve_is_that_of_numpy_but_for_the_last_bits(faster):
    random = np.random.default_rng(2)
    H, P = random.normal(size=(200, 70)), random.normal(size=(70, 9))
    with accelerated_by(faster):
        given = solve_ridge(H.T @ H, P, 0.5)
    assert given == pytest.approx(solve_ridge(H.T @ H, P, 0.5), rel=1e-9, abs=1e-12)


def test_a_singular_system_is_told_in_the_same_words(faster):
    with accelerated_by(faster), pytest.raises(SingularError, match="choose a larger ridge"):
        solve_ridge(np.zeros((3, 3)), np.ones((3, 1)), 0.0)


def test_the_fingerprint_names_who_solves(faster):
    import torch

    with accelerated_by(faster):
        assert torch.__version__ in platform_fingerprint()["solver"]
    assert "solver" not in platform_fingerprint()
    assert accelerator() is None


def test_a_device_that_rounds_products_is_refused(monkeypatch):
    from fleetledger.learning.training.torch_accelerator import TorchAccelerator

    monkeypatch.setattr(TorchAccelerator, "gram_triangle", lambda *_: np.array([16_777_216]))
    with pytest.raises(TrainingError, match="sums would not be exact; set cpu"):
        TorchAccelerator("cpu")
