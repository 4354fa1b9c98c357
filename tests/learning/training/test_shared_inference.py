"""Agents that share batches get what a batch of their own would give, in one pass after another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fleetledger.learning.training.shared_inference import InferenceRequest, Rows, SharedInference

pytestmark = pytest.mark.torch

SIZES = {"a": 5, "b": 1, "c": 9, "d": 3}


class Fleet:
    """Agents with pictures of their own, and what a pass is asked."""

    def __init__(self, at_once: int) -> None:
        self.passes: list[int] = []
        chance = np.random.default_rng(0)
        self.pictures = {
            name: chance.integers(0, 256, (count, 3, 2), np.uint8) for name, count in SIZES.items()
        }
        self.looks = SharedInference(
            {
                name: InferenceRequest(one, self.scores, at_once)
                for name, one in self.pictures.items()
            }
        )

    def scores(self, batch: torch.Tensor) -> Rows:
        self.passes.append(len(batch))
        return self.wanted(batch.numpy())

    def wanted(self, pictures: Rows) -> Rows:
        return pictures.astype(np.float32).sum(axis=2) / 7

    def assert_own(self, name: str) -> None:
        parts = self.looks.of(name)
        assert parts is not None
        assert np.array_equal(np.concatenate(list(parts)), self.wanted(self.pictures[name]))


@pytest.mark.parametrize(
    ("at_once", "passes"),
    [(256, [18]), (8, [8, 8, 2]), (6, [6, 6, 6]), (1, [1] * 18)],
)
def test_batches_are_full_and_each_agent_gets_its_own(at_once: int, passes: list[int]) -> None:
    fleet = Fleet(at_once)
    for name in SIZES:
        fleet.assert_own(name)
    assert fleet.passes == passes


def test_a_batch_is_computed_when_its_first_agent_asks() -> None:
    fleet = Fleet(6)
    assert fleet.passes == []
    fleet.assert_own("a")
    assert fleet.passes == [6]
    fleet.assert_own("b")
    assert fleet.passes == [6]


def test_one_that_did_not_take_its_own_is_passed_over() -> None:
    fleet = Fleet(4)
    fleet.assert_own("b")
    fleet.assert_own("d")
    assert fleet.looks.of("a") is None, "it is too late"


def test_one_that_asked_nothing_gets_nothing() -> None:
    fleet = Fleet(4)
    assert fleet.looks.of("e") is None
    fleet.assert_own("a")
