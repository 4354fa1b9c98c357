"""A study is one scenario in several forms: cases, values, and all combinations of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.studies import study_names
from fleetledger.simulator.scenario.study import Form, load_forms
from fleetledger.simulator.scenario.tiny import Absent, tiny_step

TWO = """
title = "Sites and ridges"
description = "What is compared."
base = "digits"
seeds = [7]

[vary]
"method.settings.ridge" = [1e3, 1e4]

[[case]]
name = "few"
devices.count = 2

[[case]]
name = "many"
devices.count = 9
published = [{label = "a paper", final = 90.0}]
"""


def forms(folder: Path, text: str, *overrides: str) -> list[Form]:
    (folder / "study.toml").write_text(text)
    return load_forms(str(folder / "study.toml"), overrides)


def test_every_case_has_every_combination_of_values(tmp_path: Path) -> None:
    found = forms(tmp_path, TWO)
    assert [form.name for form in found] == [
        "few, ridge=1000.0",
        "few, ridge=10000.0",
        "many, ridge=1000.0",
        "many, ridge=10000.0",
    ]
    told = [(f.scenario.devices.count, f.scenario.method.settings["ridge"]) for f in found]
    assert told == [(2, 1e3), (2, 1e4), (9, 1e3), (9, 1e4)]


def test_what_it_says_beside_holds_for_all_forms_and_the_rest_is_the_bases(tmp_path: Path) -> None:
    first, *_, last = (form.scenario for form in forms(tmp_path, TWO))
    assert first.seeds == last.seeds == (7,)
    assert first.stages == load_scenario("digits").stages
    assert (first.title, first.description) == (
        "Sites and ridges: few, ridge=1000.0",
        "What is compared.",
    )
    assert first.published == load_scenario("digits").published
    assert [curve.final for curve in last.published] == [90.0]


def test_the_command_line_wins(tmp_path: Path) -> None:
    found = forms(tmp_path, TWO, "devices.count=4", "seeds=[1,2]")
    assert {form.scenario.devices.count for form in found} == {4}
    assert {form.scenario.seeds for form in found} == {(1, 2)}


def test_a_scenario_is_a_form_by_itself() -> None:
    (form,) = load_forms("digits", ["devices.count=4"])
    assert (form.name, form.scenario) == ("", load_scenario("digits", ["devices.count=4"]))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('title = "x"\nbase = "digits"\n[[case]]\ndevices.count = 2', "give each case one"),
        ('title = "x"\nbase = "digits"\ncase = [{name = "a"}, {name = "a"}]', "give each case one"),
        ('title = "x"\nbase = "digits"\n[vary]\n"seeds" = []', "a field without values"),
        ('title = "x"\nbase = "digits"\n[vary]', "say what is compared"),
        ('title = "x"\n[[case]]\nname = "a"', "base"),
        (TWO.replace("devices.count = 9", "devices.cout = 9"), "many, ridge=1000.0: .*cout"),
        (TWO.replace("settings.ridge", "settings.rigde"), "rigde"),
    ],
)
def test_what_is_wrong_is_told_with_the_form(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        forms(tmp_path, text)


def test_who_runs_a_study_as_a_scenario_is_told_how_to_run_it() -> None:
    with pytest.raises(ScenarioError, match=r"is a study.*simulate sweep dcid-sites"):
        load_scenario("dcid-sites")


@pytest.mark.parametrize("name", study_names())
def test_every_form_of_a_study_that_ships_can_be_cut_to_a_tiny_step(name: str) -> None:
    found = load_forms(name)
    assert len({form.name for form in found}) == len(found) >= 3
    for form in found:
        stages = form.scenario.stages.total
        assert tiny_step(form.scenario, Absent(data=True)).scenario.stages.total == min(2, stages)
