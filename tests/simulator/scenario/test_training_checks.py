"""Scenarios whose fleet trains its network: who trains, and what does not go with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario, parse_scenario
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import (
    Trainer,
    learns_in_rounds,
    trainer_of,
    trains_on_features,
    trains_on_pictures,
)

FIRST = {"name": "rounds", "settings": {"network": "mlp"}, "rounds": 5}


def scenario(**method: object) -> Scenario:
    return Scenario.model_validate({"title": "it", "method": method})


def test_a_method_that_trains_is_the_trainer_in_every_stage() -> None:
    made = scenario(name="rounds", settings={"network": "mlp"})
    assert trainer_of(made) == Trainer("rounds", {"network": "mlp"})
    assert [learns_in_rounds(made, stage) for stage in (1, 2)] == [True, True]


def test_a_method_of_statistics_has_none() -> None:
    assert trainer_of(scenario(name="stsa")) is None
    assert not learns_in_rounds(scenario(name="stsa"), 1)


def test_the_first_stage_alone_is_trained_before_statistics() -> None:
    made = scenario(name="stsa", first_stage=FIRST)
    assert trainer_of(made) == Trainer("rounds", {"network": "mlp"})
    assert [learns_in_rounds(made, stage) for stage in (1, 2)] == [True, False]


def test_joint_trains_as_rounds_do() -> None:
    assert trainer_of(scenario(name="joint")) == Trainer("rounds", {})


@pytest.mark.parametrize(
    ("method", "on_features"),
    [
        ({"name": "fedhaf"}, True),
        ({"name": "rounds"}, False),
        ({"name": "rounds", "on_features": True}, True),
        ({"name": "joint", "on_features": True}, True),
    ],
)
def test_a_network_is_trained_on_features_as_the_card_says_or_as_is_asked(
    method: dict[str, object], on_features: bool
) -> None:
    made = scenario(**method)
    assert trains_on_features(made) is on_features
    assert trains_on_pictures(made) is not on_features


def test_a_frozen_network_belongs_to_training_on_features(tmp_path: Path) -> None:
    text = (
        'title = "it"\n[method]\nname = "fedhaf"\n[backbone]\nnetwork = "file"\nfile = "a.onnx"\n'
    )
    made = parse_scenario("it.toml", text, tmp_path)
    assert made.backbone.file == str(tmp_path / "a.onnx")


def test_first_weights_are_drawn_by_the_runs_seed_unless_the_settings_say_so() -> None:
    assert Trainer("rounds", {}).seeded(3) == {"seed": 3}
    assert Trainer("rounds", {"seed": 5}).seeded(3) == {"seed": 5}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('name = "rounds"\nsettings = {netwrk = "mlp"}', "did you mean 'network'"),
        ('name = "rounds"\nsettings = {network = "mlq"}', "'mlq' is unknown"),
        ('name = "joint"\nsettings = {epoch = 2}', "did you mean 'epochs'"),
        ('name = "rounds"\n[method.first_stage]', "before 'rounds'"),
        ('name = "stsa"\n[method.first_stage]\nname = "stsa"', "'stsa' before 'stsa'"),
        (
            'name = "stsa"\n[method.first_stage]\nsettings = {networ = "mlp"}',
            "method.first_stage.settings.networ: no such setting",
        ),
        ('name = "rounds"\n[backbone]\nnetwork = "file"\nfile = "a.onnx"', "leave the section out"),
        ('name = "fedhaf"\non_features = false', "'fedhaf' trains on features"),
        ('name = "stsa"\non_features = true', "a method that trains in every stage"),
        ('name = "rounds"\non_features = true\nsettings = {network = "resnet8"}', "resnet8"),
        ('name = "rounds"\n[detection]\nmode = "fixed-rise"', "set it to off"),
        ('name = "rounds"\n[evaluation]\npooled_reference = true', "no ridge regression"),
    ],
)
def test_what_does_not_go_with_training_is_told(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario("it.toml", f'title = "it"\n[method]\n{text}\n', tmp_path)
    assert told in str(caught.value)


def test_settings_of_the_first_stage_are_set_from_the_command_line() -> None:
    made = load_scenario("digits-stsa-adapted", ["method.first_stage.settings.rate=0.5"])
    assert made.method.first_stage is not None
    assert made.method.first_stage.settings["rate"] == 0.5
