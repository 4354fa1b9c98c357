"""The command that runs LGA on its own protocols, as the page of its tables has it, is one."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from fleetledger.simulator.scenario.loading import load_scenario

PAGE = Path(__file__).parents[3] / "benchmarks" / "papers" / "lga_tables" / "README.md"
FULL = "fleetledger simulate run cifar100-lga-"


def changes() -> list[str]:
    """Return the settings of the page's command."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    (command,) = [line for line in text.splitlines() if line.startswith(FULL)]
    words = shlex.split(command)
    return [after for word, after in pairwise(words) if word == "--set"]


@pytest.mark.parametrize(("tasks", "average"), [(5, 73.0), (10, 73.5), (20, 70.6)])
def test_it_is_the_papers_protocol(tasks: int, average: float) -> None:
    scenario = load_scenario(f"cifar100-lga-{tasks}", changes())
    assert scenario.method.name == "lga"
    assert scenario.method.settings["mode"] == "code"
    assert (scenario.stages.total, scenario.rounds.per_stage, scenario.rounds.cohort) == (
        tasks,
        10,
        10,
    )
    assert scenario.devices.policy.publish_gradients
    assert scenario.backbone.size == 32
    assert scenario.published[0].average == average
