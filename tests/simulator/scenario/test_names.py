"""Scenarios that ship are what they say: name, title, method and printed figures agree."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from statistics import mean

import pytest

from fleetledger.methods.registry import METHODS
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.shipped import shipped_names
from fleetledger.simulator.scenario.trainer import JOINT

TITLES = {"fedcof": "FedCOF", "fed3r": "Fed3R", "fedhaf": "FedHAF", "fedncm": "FedNCM"}
"""How methods are written that are not written in capitals."""
COMMON_WORDS = {"rounds", "pooled"}
"""Methods whose names say something else in a title."""
PRESETS = {
    "fedavg": "fedavg",
    "fedavg-task": "fedavg-task",
    "fed-ewc": "fed-ewc",
    "fed-lwf": "fed-lwf",
    "icarl": "icarl",
}
"""Baselines in names of scenarios, which are presets of `rounds`."""
SCENARIOS = [pytest.param(load_scenario(name), name, id=name) for name in shipped_names()]


def method_in(name: str) -> str | None:
    """Return the method that a scenario's name has among its words."""
    words = set(name.split("-"))
    (found,) = words & {*METHODS, JOINT} or {None}
    return found


def has_modes(method: str) -> bool:
    """Whether a method's settings tell the printed equations from the released program."""
    module = f"fleetledger.methods.{method}.settings"
    return find_spec(module) is not None and hasattr(import_module(module), "MODES")


@pytest.mark.parametrize(("scenario", "name"), SCENARIOS)
def test_a_scenario_runs_the_method_that_its_name_and_title_have(
    scenario: Scenario, name: str
) -> None:
    named = method_in(name)
    if named is not None:
        assert scenario.method.name == named
    for method in set(METHODS) - COMMON_WORDS:
        if re.search(rf"\b{TITLES.get(method, method.upper())}\b", scenario.title):
            assert scenario.method.name == method, scenario.title


@pytest.mark.parametrize("baseline", PRESETS)
def test_a_scenario_named_for_a_baseline_runs_its_preset(baseline: str) -> None:
    scenario = load_scenario(f"digits-{baseline}")
    assert scenario.method.name == "rounds"
    assert scenario.method.settings["preset"] == PRESETS[baseline]


@pytest.mark.parametrize(("scenario", "name"), SCENARIOS)
def test_printed_figures_are_of_the_method_in_the_form_in_which_they_came_about(
    scenario: Scenario, name: str
) -> None:
    if not scenario.published:
        return
    method = scenario.method
    first = scenario.published[0].label
    title = TITLES.get(method.name, method.name.upper())
    if str(method.settings.get("preset")).endswith("glfc"):
        title = "GLFC"  # a preset of the method that came after it
    assert re.match(rf"{title}\b", first), first
    if has_modes(method.name):
        assert method.settings["mode"] == "code", "what is printed is the released program's"


@pytest.mark.parametrize(("scenario", "name"), SCENARIOS)
def test_printed_curves_fit_the_stages_and_themselves(scenario: Scenario, name: str) -> None:
    for curve in scenario.published:
        if curve.accuracy:
            told = scenario.stages.total
            assert len(curve.accuracy) == told or "of the nine printed" in curve.source
            assert curve.final in (None, curve.accuracy[-1])
            if curve.average is not None:
                assert curve.average == pytest.approx(mean(curve.accuracy), abs=0.1)


@pytest.mark.parametrize(("scenario", "name"), SCENARIOS)
def test_a_number_at_the_end_of_a_name_is_that_of_tasks_or_of_devices(
    scenario: Scenario, name: str
) -> None:
    *_, before, last = "", *name.split("-")
    if not last.isdigit() or before.isdigit():
        return
    assert int(last) in (
        scenario.stages.total,
        scenario.stages.total - 1,
        scenario.devices.count,
    )
