"""Every method's step is a function of static shapes: one graph, which does the same."""

from __future__ import annotations

import pytest
import torch

from benchmarks.speed.kernel_counts.step_paths import step_paths
from fleetledger.methods.registry import METHODS
from tests.learning.training.static_works import FirstStep, assert_same

pytestmark = pytest.mark.torch

PATHS = step_paths()
BY_DAY = (
    "fedhaf body",
    "rounds adapters",
    "lga lga",
    "dcid distilling",
)
"""A path of each kind of step is compiled by day, the others by night: it takes some seconds."""


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "name",
    [name if name in BY_DAY else pytest.param(name, marks=pytest.mark.nightly) for name in PATHS],
)
def test_a_step_compiles_as_one_graph_and_leaves_the_same_weights(name: str) -> None:
    work = PATHS[name]()
    by_hand = FirstStep.of(work).static()
    assert any(not torch.equal(by_hand[key], work.parameters[key]) for key in work.parameters)
    assert_same(FirstStep.of(work).static("eager"), by_hand, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", PATHS)
def test_a_step_of_tensors_alone_is_the_step_of_today_but_for_the_rounding_of_its_rate(
    name: str,
) -> None:
    work = PATHS[name]()
    assert_same(FirstStep.of(work).static(), FirstStep.of(work).eager(), rtol=1e-6, atol=1e-7)


def test_every_method_that_trains_has_a_step_here() -> None:
    trains = {"rounds", "fedhaf", "lga", "dcid", "fbl", "stsa"}
    assert trains <= set(METHODS)
    assert {name.split()[0] for name in PATHS} == trains
