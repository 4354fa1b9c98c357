"""Arrays become tensors and return."""

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_arrays, to_tensors
from fleetledger.learning.networks.registry import build_network

pytestmark = pytest.mark.torch

ARRAYS = build_network("convnet", (1, 8, 8)).initial(0, ["a"])


def test_there_and_back_nothing_changes():
    back = to_arrays(*to_tensors(ARRAYS))
    assert back.keys() == ARRAYS.keys()
    assert all(np.array_equal(back[name], ARRAYS[name]) for name in ARRAYS)
    assert {array.dtype for array in back.values()} == {np.dtype(np.float32)}


def test_buffers_are_apart_from_parameters():
    parameters, buffers = to_tensors(ARRAYS)
    assert set(buffers) == {f"norm{i}.running_{part}" for i in (0, 1) for part in ("mean", "var")}
    assert set(parameters) == set(ARRAYS) - set(buffers)


def test_tensors_are_copies():
    parameters, _ = to_tensors(ARRAYS)
    parameters["head.weight"].zero_()
    assert ARRAYS["head.weight"].any()


def test_tensors_that_are_trained_become_arrays_too():
    assert to_arrays({"w": torch.ones(2, requires_grad=True)})["w"].tolist() == [1, 1]
