"""Every form of every study that ships trains one tiny step, on networks that take seconds.

By night, but for one of them: `test_every_scenario.py` trains their bases on their own networks.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from fleetledger.simulator.run.absent_files import absent_here
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.studies import study_names
from fleetledger.simulator.scenario.study import load_forms
from fleetledger.simulator.scenario.tiny import tiny_step
from tests.simulator.tiny.test_every_scenario import small_transformers

pytestmark = pytest.mark.torch

BY_DAY = frozenset({"lga-memory"})
SMALL = {
    "lga": ["method.settings.network=resnet8"],
    "fbl": ["method.settings.network=small_dense"],
    "fedhaf": ["backbone.network=mobilenet-v2"],
    "stsa": ["method.first_stage.settings.network=resnet8"],
}
SAID = {"title": "the same", "description": "", "published": ()}
"""What tells forms apart and changes nothing that is trained."""


def small(scenario: Scenario) -> list[str]:
    """Return what makes a form's network small, of the same kind of features.

    A transformer is small by `small_transformers`.
    """
    if scenario.backbone.network == "torchvision":
        return []
    if scenario.method.name != "dcid":
        return SMALL[scenario.method.name]
    preset = str(scenario.method.settings["preset"])
    return [f"method.settings.network=resnet8{'_signed' if 'lucir' in preset else ''}"]


def tiny_forms(name: str) -> list[Scenario]:
    """Return the different steps that the forms of a study are cut to."""
    steps: list[Scenario] = []
    wholes = load_forms(name)
    for place, whole in enumerate(wholes):
        form = load_forms(name, small(whole.scenario))[place].scenario
        step = tiny_step(form, absent_here(form)).scenario.model_copy(update=SAID)
        if step not in steps:
            steps.append(step)
    return steps


def marks(name: str) -> list[pytest.MarkDecorator]:
    found = [] if name in BY_DAY else [pytest.mark.nightly]
    if load_forms(name)[0].scenario.backbone.network == "torchvision":
        found.append(pytest.mark.torchvision)
    return found


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in study_names()])
def test_every_form_trains_one_tiny_step(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    small_transformers(monkeypatch)
    for number, step in enumerate(tiny_forms(name)):
        results = run_scenario(step, tmp_path / str(number), Console(file=io.StringIO()))
        assert len(results.first.stages) == step.stages.total == 2
