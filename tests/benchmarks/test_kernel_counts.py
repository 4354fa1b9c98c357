"""Kernels, copies and waits of every training and round are those that were written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from benchmarks.speed.kernel_counts.round_paths import round_paths
from benchmarks.speed.kernel_counts.run import (
    RESULTS,
    count_round,
    count_training,
    differences,
    table,
)
from benchmarks.speed.kernel_counts.training_paths import training_paths

pytestmark = pytest.mark.torch

WRITTEN: Mapping[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
SAME_TORCH = torch.__version__.partition("+")[0] == WRITTEN["torch"]
AGAIN = "improved, or worse? python -m benchmarks.speed.kernel_counts.run writes the counts of now"


def check(found: Mapping[str, Any], written: Mapping[str, Any]) -> None:
    """Equal counts; another torch may need a tenth more."""
    if SAME_TORCH:
        assert not list(differences(found, written)), AGAIN
        return
    for kind, count in found.items():
        if isinstance(count, int):
            assert count <= written.get(kind, 0) * 1.1, (kind, AGAIN)


def test_the_file_knows_every_path() -> None:
    assert WRITTEN["training"].keys() == training_paths().keys()
    assert WRITTEN["rounds"].keys() == round_paths().keys()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly) if "resnet18" in name else name
        for name in training_paths()
    ],
)
def test_a_training_costs_what_was_written_down(name: str) -> None:
    found = count_training(training_paths()[name])
    for term, written in WRITTEN["training"][name].items():
        check(found[term], written)


@pytest.mark.parametrize("name", round_paths())
def test_a_round_costs_what_was_written_down(name: str) -> None:
    check(count_round(round_paths()[name]), WRITTEN["rounds"][name])


BUDGETS = {
    "fedhaf head, stack": 80,
    "fedhaf body, stack": 155,
    "rounds resnet8, stack": 90,
    "lga resnet18 first task, loop": 170,
    "lga resnet18 later task, loop": 190,
    "lga resnet18 later task, captured": 10,
}
"""Kernels of a step; of others the counts are those that were written down."""
PASSES = ("fbl small_dense later task, loop",)
"""Trainings with a full pass before each epoch, which is counted with the steps."""


def test_nothing_stops_a_step_and_an_epoch_needs_no_copy() -> None:
    for name, path in WRITTEN["training"].items():
        if name not in PASSES:
            assert path["step"].keys() <= {"kernels"}, name
        assert "to_device" not in path["epoch"], name


def test_no_convolution_is_computed_on_the_processor() -> None:
    every = [*WRITTEN["rounds"].values()]
    every += [term for path in WRITTEN["training"].values() for term in path.values()]
    assert all("host_convolutions" not in counts for counts in every)


def test_a_stack_of_convolutions_asks_for_hardly_more_than_one_agent_does() -> None:
    step = {way: WRITTEN["training"][f"rounds resnet8, {way}"]["step"] for way in ("stack", "loop")}
    assert step["stack"]["kernels"] <= step["loop"]["kernels"] + 3


@pytest.mark.parametrize("name", BUDGETS)
def test_a_step_keeps_to_its_budget(name: str) -> None:
    assert WRITTEN["training"][name]["step"]["kernels"] <= BUDGETS[name]


def test_the_table_is_that_of_the_counts() -> None:
    assert RESULTS.with_suffix(".md").read_text(encoding="utf-8") == table(WRITTEN) + "\n"


def test_a_change_is_told_by_its_name() -> None:
    before = {"a": {"step": {"kernels": 3, "waits": 1}}, "b": {"step": {"kernels": 1}}}
    now = {"a": {"step": {"kernels": 4}}, "b": {"step": {"kernels": 1}}}
    assert list(differences(now, before)) == [
        "a / step / kernels: 3 before, 4 now",
        "a / step / waits: 1 before, 0 now",
    ]
