"""A network of which adapters alone are trained names in `[backbone]` what nobody trains."""

from __future__ import annotations

import pytest

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.scenario.trainer import adapts, trains_on_pictures

SHIPPED = ("cifar100-stsa-vit", "imagenet-r-stsa", "imagenet-r-stsa-released")


@pytest.mark.parametrize("name", SHIPPED)
def test_the_scenarios_that_ship_train_adapters_in_torchvisions_network(name: str) -> None:
    scenario = load_scenario(name)
    assert trains_on_pictures(scenario)
    assert adapts(scenario)
    assert scenario.backbone.shape == (224, 224)


def test_a_network_that_is_trained_whole_names_none() -> None:
    assert not adapts(load_scenario("cifar100-stsa-scratch"))
    with pytest.raises(ScenarioError, match="trains its network from the first weights on"):
        load_scenario("cifar100-stsa-vit", ["method.first_stage.settings.network=resnet18"])


@pytest.mark.parametrize("change", ["backbone.network=pixels", "backbone.name=vit_b_32"])
def test_adapters_without_the_network_that_they_stand_in_are_refused(change: str) -> None:
    with pytest.raises(ScenarioError, match=r"of 'vit_b_16' adapters alone .* name = 'vit_b_16'"):
        load_scenario("cifar100-stsa-vit", [change])


def test_a_whole_network_in_one_place_is_no_bound_of_adapters() -> None:
    changes = ["method.name=joint", "method.settings.network=vit_b_16"]
    with pytest.raises(ScenarioError, match="'joint' trains a whole network"):
        load_scenario("cifar100-fedhaf", [*changes, "backbone.name=vit_b_16"])
