"""The bare loop that LGA's training is held against, and what is made of the seconds."""

from __future__ import annotations

import pytest
import torch

from benchmarks.speed.lga_training.bare import BareResNet, Settings, distilled, labelled, train
from benchmarks.speed.lga_training.run import CLOCKS, summarise
from benchmarks.speed.lga_training.works import CLASSES, assignment, works
from fleetledger.learning.training.work import Work
from fleetledger.methods.lga.terms import TEACHER

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def made() -> dict[str, Work]:
    return works(assignment("resnet8", side=8, batch=4, epochs=1), images=CLASSES)


def test_both_networks_have_the_same_tensors(made: dict[str, Work]) -> None:
    for work, classes in zip(made.values(), (CLASSES, 2 * CLASSES), strict=True):
        bare = BareResNet("resnet8", classes)
        own = sorted(tuple(tensor.shape) for tensor in work.parameters.values())
        assert own == sorted(tuple(tensor.shape) for tensor in bare.parameters())


def test_only_a_later_task_has_an_old_model(made: dict[str, Work]) -> None:
    assert [TEACHER in work.frozen for work in made.values()] == [False, True]
    assert [len(work.data) for work in made.values()] == [CLASSES, CLASSES]


@pytest.mark.parametrize("later", [False, True])
def test_the_bare_loop_learns(made: dict[str, Work], later: bool) -> None:
    data = made["first task"].data
    torch.manual_seed(0)
    network, teacher = BareResNet("resnet8", CLASSES), BareResNet("resnet8", CLASSES).eval()
    inputs = (data.inputs.float() / 255 - 0.5) / 0.25

    def loss() -> float:
        with torch.no_grad():
            return float(labelled(inputs, network(inputs), data.targets))

    before = loss()
    chosen = distilled(teacher) if later else labelled
    train(network, data.inputs, data.targets, chosen, Settings(12, 10, bfloat16=False))
    assert loss() < before


def test_speed_is_images_by_seconds_and_ratios_are_of_the_same_turn() -> None:
    turns = [
        {"lga": dict.fromkeys(CLOCKS, lga), "bare": dict.fromkeys(CLOCKS, bare)}
        for lga, bare in ((2.0, 1.0), (4.0, 4.0), (10.0, 8.0))
    ]
    found = summarise(turns, images=80)["wall"]
    assert found["lga_images_per_second"] == 20.0
    assert found["bare_images_per_second"] == 20.0
    assert found["lga_to_bare"] == 0.8
    assert found["range"] == [0.5, 1.0]
