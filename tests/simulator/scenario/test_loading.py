"""Scenarios from files and by name, and what is said when something is wrong with them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import (
    changed,
    checked,
    load_scenario,
    parse_scenario,
    scenario_to_toml,
)
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.overrides import Unset
from fleetledger.simulator.scenario.sections import Absence, StageSettings
from fleetledger.simulator.scenario.shipped import shipped_names


def written(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(f'title = "mine"\n{text}', encoding="utf-8")
    return str(path)


def refusal(path_or_name: str, *overrides: str) -> str:
    with pytest.raises(ScenarioError) as refused:
        load_scenario(path_or_name, overrides)
    return str(refused.value)


def test_a_file_needs_a_title_and_nothing_else(tmp_path: Path):
    assert load_scenario(written(tmp_path, "")) == Scenario(title="mine")


def test_what_the_command_line_sets_replaces_what_the_file_says(tmp_path: Path):
    path = written(tmp_path, "seeds = [4]\n[devices]\ncount = 3\n[devices.partition]\nbeta = 2\n")
    scenario = load_scenario(
        path, ["devices.count=7", "seeds=[1, 2]", "method.settings.ridge=1e5", "data.set=digits"]
    )
    assert scenario.devices.count == 7
    assert scenario.devices.partition.beta == 2
    assert scenario.seeds == (1, 2)
    assert scenario.method.settings == {"ridge": 1e5}
    assert scenario.data.set == "digits"


RIVALS = '[stages]\norder = "as-is"\nfirst = 1\n'


def test_a_rival_setting_is_left_out(tmp_path: Path):
    path, lists = written(tmp_path, RIVALS), 'stages.lists=[["a"], ["b"]]'
    assert refusal(path, lists).endswith(
        "so leave out one or the other, on the command line by "
        "--unset stages.order --unset stages.first"
    )
    scenario = load_scenario(path, [Unset("stages.order"), Unset("stages.first"), lists])
    assert scenario.stages.lists == (("a",), ("b",))
    assert load_scenario(path, [Unset("stages")]).stages == StageSettings()
    assert load_scenario(path, [Unset("stages.count"), "stages.first=1"]).stages.first == 1


def test_what_is_set_after_it_was_left_out_counts(tmp_path: Path):
    path = written(tmp_path, "[devices]\ncount = 3\n")
    assert load_scenario(path, [Unset("devices.count"), "devices.count=7"]).devices.count == 7
    text = refusal(path, Unset("devices"), "devices.count=7")
    assert "--set devices.count=7: devices is set or left out as a whole already" in text


def test_only_a_field_can_be_left_out(tmp_path: Path):
    text = refusal(written(tmp_path, ""), Unset("stages.ordre"))
    assert text.startswith("--unset stages.ordre: ")
    assert "order" in text


def test_none_leaves_out_in_python_what_a_scenario_says():
    base = {"title": "t", "stages": {"order": "as-is", "first": 1}}
    scenario = checked("t", changed(base, {"stages": {"order": None, "first": None, "count": 2}}))
    assert (scenario.stages.order, scenario.stages.count) == (StageSettings().order, 2)
    assert checked("t", {"title": "t", "stages": {"first": None}}).stages == StageSettings()


def test_what_is_to_be_left_out_names_the_option():
    text = refusal("digits", "engine.kind=mqtt", "engine.workers=2")
    assert text.endswith("(on the command line: --unset NAME)")


def test_another_method_on_the_command_line_does_not_get_the_settings_of_the_files(tmp_path: Path):
    path = written(tmp_path, '[method]\nname = "stsa"\n[method.settings]\nform = "exact"\n')
    other = load_scenario(path, ["method.name=fedncm", "method.settings.logit_scale=5"])
    assert other.method.settings == {"logit_scale": 5}
    same = load_scenario(path, ["method.name=stsa", "method.settings.ridge=7"])
    assert same.method.settings == {"form": "exact", "ridge": 7}
    assert load_scenario("digits-fedavg", ["method.name=joint"]).method.settings["network"] == "mlp"


def test_text_that_is_no_toml_is_taken_as_it_stands(tmp_path: Path):
    scenario = load_scenario(
        written(tmp_path, ""), ["title=A day, at 12:30", "description=1999-12-31"]
    )
    assert scenario.title == "A day, at 12:30"
    assert scenario.description == "1999-12-31"


def test_a_path_is_seen_from_its_file_and_from_where_one_stands(tmp_path: Path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", "/home/somebody")
    path = written(
        tmp_path,
        '[data]\nset = "cifar100"\nroot = "data"\n'
        '[backbone]\nnetwork = "torchvision"\nname = "resnet18"\nweights = "IMAGENET1K_V1"\n',
    )
    assert load_scenario(path).data.root == str(tmp_path / "data")
    assert load_scenario(path, ["data.root=data"]).data.root == str(elsewhere / "data")
    assert load_scenario(path, ["data.root=~/data"]).data.root == "/home/somebody/data"
    assert load_scenario(path).backbone.weights == "IMAGENET1K_V1"
    weights = load_scenario(path, ["backbone.weights=net.pth"]).backbone.weights
    assert weights == str(elsewhere / "net.pth")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("devices.cout=3", ("devices.cout", "'count'")),
        ("divices.count=3", ("divices", "'devices'")),
        ("ridge=1e5", ("ridge", "method.settings.NAME")),
        ("seeds.one=1", ("seeds is a value", "--set seeds=VALUE")),
        ("seeds", ("no setting and value",)),
        ("method.settings.ridgee=1", ("method.settings.ridgee", "'ridge'")),
        ("method.settings.ridge=-1", ("method.settings.ridge", "-1", "greater than 0")),
        ("method.settings.map=gaussian", ("method.settings", "compact")),
        ("method.name=stas", ("method.name", "'stas'", "stsa")),
        ("data.set=cifar1000", ("data.set", "'cifar1000'", "'cifar100'")),
        ("stages.count=0", ("stages.count", "0", "greater than or equal to 1")),
        ('stages.lists=[["a/b"]]', ("stages.lists.0.0", "a/b", "without '/'")),
        ("seeds=[1, 1]", ("seeds", "1 stands twice")),
        ("seeds=[]", ("seeds", "at least 1")),
    ],
)
def test_a_wrong_field_is_told_with_its_value_and_what_is_allowed(
    tmp_path: Path, override: str, told: tuple[str, ...]
):
    text = refusal(written(tmp_path, ""), override)
    assert "\n" not in text
    for part in told:
        assert part in text


def test_an_unknown_field_of_a_file_is_told_with_the_file_and_the_nearest_field(tmp_path: Path):
    path = written(tmp_path, "[[devices.absences]]\ndevice = 1\njoin = 2\n")
    assert (
        refusal(path) == f"{path}: devices.absences.0.join: no such setting; did you mean 'joins'?"
    )


def test_a_file_that_is_not_toml_is_told_with_the_line(tmp_path: Path):
    text = refusal(written(tmp_path, "seeds = [1,\n[devices]"))
    assert "not TOML" in text
    assert "line" in text


def test_a_name_that_is_nowhere_is_told_with_the_nearest_one():
    assert "did you mean 'digits'" in refusal("digit")
    assert "--list" in refusal("nothing-like-it.toml")


def test_a_folder_is_no_scenario(tmp_path: Path):
    assert "cannot be read" in refusal(str(tmp_path))


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "description": st.text(st.characters(exclude_categories=["C"]), max_size=20),
        "seeds": st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True),
        "stages": st.sampled_from([{"count": 3}, {"lists": [["a", "b"], ["ü"]]}, {"first": 4}]),
        "devices": st.sampled_from(
            [{"count": 9}, {"absences": [Absence(device=2, joins=2).model_dump(exclude_none=True)]}]
        ),
        "method": st.fixed_dictionaries(
            {}, optional={"settings": st.just({"ridge": 3, "forms": ["exact"]})}
        ),
        "published": st.just([{"label": "a paper", "accuracy": [1.5, 2.5]}]),
    },
)


@given(CHANGES)
def test_a_scenario_that_was_written_is_read_the_same(changes: dict):
    scenario = Scenario.model_validate({"title": "mine", **changes})
    text = scenario_to_toml(scenario)
    assert parse_scenario("it", text, Path("/")) == scenario


@pytest.mark.parametrize("name", shipped_names())
def test_every_scenario_that_ships_can_be_read_and_written(name: str):
    scenario = load_scenario(name)
    assert parse_scenario(name, scenario_to_toml(scenario), Path("/")) == scenario
    assert scenario.description


def test_another_plan_leaves_out_the_options_of_the_one_before() -> None:
    other = load_scenario("digits-repetition", ["stages.plan=blurry", "stages.options.share=0.1"])
    assert other.stages.options == {"share": 0.1}
    same = load_scenario("digits-repetition", ["stages.plan=repetition"])
    assert same.stages.options == {"again": 0.5}
