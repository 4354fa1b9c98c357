"""Scenarios of pictures with masks: their sections, and what they do not go with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fleetledger.device_agent.kinds import SCENES
from fleetledger.runtime.setting_faults import describe_faults
from fleetledger.simulator.datasets.loading import names_of
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import parse_scenario, scenario_to_toml
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import StageSettings

SHARES = {"partition": {"rule": "class-share"}}
WITH_MASKS = {"title": "mine", "data": {"set": "digit-scenes"}, "devices": SHARES}


def refusal(**sections: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        Scenario.model_validate({"title": "mine", **sections})
    return describe_faults(refused.value, Scenario)


@pytest.mark.parametrize(
    ("setting", "classes", "first", "total"),
    [("15-1", 20, 15, 6), ("4-4", 20, 4, 5), ("8-2", 20, 8, 7), ("100-10", 150, 100, 6)],
)
def test_a_setting_says_how_many_classes_the_stages_have(
    setting: str, classes: int, first: int, total: int
) -> None:
    stages = StageSettings(setting=setting, classes=classes)
    assert (stages.total, stages.larger_first) == (total, first)


def test_all_classes_at_once_are_one_stage() -> None:
    stages = StageSettings(setting="20-1", classes=20)
    assert (stages.total, stages.larger_first) == (1, None)


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ({"setting": "15-1"}, "stages.setting: '15-1' without classes;"),
        ({"setting": "15-1", "classes": 14}, "stages.setting: '15-1' of 14 classes; give at most"),
        ({"setting": "8-5", "classes": 20}, "stages.setting: '8-5' of 20 classes leaves 2 for"),
        ({"setting": "4-4", "classes": 20, "count": 4}, "stages.setting: '4-4' beside count;"),
        ({"setting": "4-4", "first": 4, "classes": 20}, "stages.setting: '4-4' beside first;"),
        ({"setting": "4-0", "classes": 20}, "stages.setting: '4-0': text must match"),
        ({"lists": [["a"]], "setting": "4-4"}, "stages.lists: given beside setting;"),
    ],
)
def test_a_setting_that_does_not_come_out_is_refused(stages: dict[str, Any], told: str) -> None:
    assert refusal(stages=stages).startswith(told)


def test_a_scenario_with_masks_comes_back_from_its_text() -> None:
    made = Scenario.model_validate(
        {
            **WITH_MASKS,
            "data": {"set": "digit-scenes", "scenes": {"train": 9, "scales": [2]}},
            "stages": {"setting": "4-2", "classes": 8},
            "backbone": {"size": [32, 40]},
        }
    )
    text = scenario_to_toml(made)
    assert "setting" in text
    assert Scenario.model_validate(_parsed(text)) == made


@pytest.mark.parametrize("name", names_of(SCENES))
def test_pictures_with_several_classes_are_dealt_by_shares_of_classes(name: str) -> None:
    told = refusal(data={"set": name})
    assert told.startswith(f"devices.partition.rule: 'dirichlet' with the data set '{name}',")
    assert Scenario.model_validate(
        {"title": "mine", "data": {"set": name}, "devices": SHARES}
    ).data.known.kind.masked


def test_height_and_width_are_for_pictures_with_masks() -> None:
    assert Scenario.model_validate(
        {**WITH_MASKS, "backbone": {"size": [24, 32]}}
    ).backbone.shape == (
        24,
        32,
    )
    assert refusal(backbone={"size": [24, 32]}).startswith("backbone.size: [24, 32] with the data")


@pytest.mark.parametrize("size", [7, 1025, True, "large", [32], [32, 4], [32, 32, 3], {"h": 32}])
def test_a_size_of_no_picture_is_refused_in_words(size: Any) -> None:
    told = refusal(backbone={"size": size})
    assert told.startswith("backbone.size: ")
    assert told.endswith("give one side of 8 to 1024 pixels, or [height, width]")


def parse(**sections: Any) -> Scenario:
    import tomli_w

    text = tomli_w.dumps({**WITH_MASKS, **sections})
    return parse_scenario("mine.toml", text, Path("/somewhere"))


@pytest.mark.parametrize(
    "method",
    [
        {"name": "stsa"},
        {"name": "rounds", "settings": {"network": "mlp"}},
        {"name": "joint"},
        {"name": "stsa", "first_stage": {"name": "rounds", "settings": {"network": "mlp"}}},
    ],
)
def test_a_method_that_gives_a_picture_one_class_learns_nothing_from_masks(
    method: dict[str, Any],
) -> None:
    with pytest.raises(ScenarioError, match=rf"'digit-scenes' has .* and '{method['name']}' gives"):
        parse(method=method)


def test_a_trunk_is_for_networks_that_give_every_pixel_a_class() -> None:
    with pytest.raises(
        ScenarioError, match=r"method.trunk: '/somewhere/t.safetensors', but 'stsa'"
    ):
        parse(data={"set": "digits"}, method={"name": "stsa", "trunk": "t.safetensors"})


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ({"name": "stsa", "first_weights": "t"}, r"first_weights: '/somewhere/t', but 'stsa'"),
        ({"name": "fbl", "first_weights": "t", "trunk": "u"}, r"first_weights: .* beside a trunk"),
        ({"name": "fbl", "settings": {"base": "central"}}, r"first_weights: missing"),
    ],
)
def test_first_weights_are_for_networks_that_give_every_pixel_a_class(
    method: dict[str, Any], said: str
) -> None:
    data = {"set": "digits" if method["name"] == "stsa" else "digit-scenes"}
    with pytest.raises(ScenarioError, match=said):
        parse(data=data, method=method)


def test_disjoint_tasks_are_for_pictures_with_masks() -> None:
    with pytest.raises(
        ScenarioError, match=r"stages.scenes: 'disjoint', but 'digits' has no masks"
    ):
        parse(data={"set": "digits"}, stages={"scenes": "disjoint"}, method={"name": "stsa"})


def test_a_method_for_pixels_wants_masks() -> None:
    with pytest.raises(ScenarioError, match=r"data.set: 'digits', but 'fbl' learns a class for"):
        parse(data={"set": "digits"}, method={"name": "fbl"})


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"detection": {"mode": "baseline"}}, "detection.mode: 'baseline' looks"),
        ({"evaluation": {"pooled_reference": True}}, "evaluation.pooled_reference: 'fbl'"),
        ({"backbone": {"network": "torchvision", "name": "resnet18"}}, "backbone.network:"),
    ],
)
def test_what_a_method_for_pixels_does_without_is_refused(
    sections: dict[str, Any], told: str
) -> None:
    with pytest.raises(ScenarioError, match=told):
        parse(method={"name": "fbl"}, **sections)


def test_texts_have_no_pixels() -> None:
    with pytest.raises(ScenarioError, match=r"data.set: 'grammar', but 'fbl'"):
        parse(data={"set": "grammar"}, method={"name": "fbl"})


def _parsed(text: str) -> Any:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)
