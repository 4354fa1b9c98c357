"""The benchmark of training dense networks measures the work that its plans describe."""

from dataclasses import replace

import pytest
import torch

from benchmarks.speed.segmentation_training import measuring
from benchmarks.speed.segmentation_training.lesson import build_work
from benchmarks.speed.segmentation_training.plans import Plan, plans
from fleetledger.learning.networks.segmentation.registry import DENSE_BODIES
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings

pytestmark = pytest.mark.torch

SMALL = Plan("small_dense", 24, batch=4, parts=2, window=16)


def test_every_network_has_plans_and_titles_tell_them_apart() -> None:
    made = plans(list(DENSE_BODIES))
    assert {plan.network for plan in made} == set(DENSE_BODIES)
    assert len({(plan.network, plan.title) for plan in made}) == len(made)
    assert all(Plan(**plan.fields()) == plan for plan in made)
    assert replace(SMALL, task=1, bfloat16=True).title == (
        "4 of 24, 2 parts, windows of 16, bfloat16, first task"
    )


@pytest.mark.parametrize("task", [1, 2])
def test_the_work_is_a_step_of_the_plan(task: int) -> None:
    work = build_work(replace(SMALL, task=task, parts=4, norms_frozen=True))
    rows = len(work.parameters["head.bias"])
    assert (rows, bool(work.frozen), work.prepare is not None) == (21, task == 2, task == 2)
    trained = train_alone(work, TrainingEngineSettings())
    assert trained.steps == 1
    assert any(not torch.equal(trained.parameters[k], v) for k, v in work.parameters.items())


def test_a_measurement_tells_seconds_and_memory() -> None:
    measured = measuring.measure(SMALL, "cpu")
    assert measured["fits"]
    assert 0 < measured["imported_mib"] <= measured["peak_mib"]
    assert measured["step_wall_s"] > 0
    assert measured["pass_wall_s"] > 0


def test_training_that_memory_is_too_small_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    monkeypatch.setattr(measuring.resource, "setrlimit", lambda _, most: limits.append(most))

    def full(plan: Plan, device: str) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1")

    monkeypatch.setattr(measuring, "measure", full)
    assert measuring.measured_within(2.0, SMALL, "cpu") == {"fits": False}
    assert limits == [(2 << 30, 2 << 30)]

    def wrong(plan: Plan, device: str) -> None:
        raise RuntimeError("shapes disagree")

    monkeypatch.setattr(measuring, "measure", wrong)
    with pytest.raises(RuntimeError, match="shapes disagree"):
        measuring.measured_within(2.0, SMALL, "cpu")
