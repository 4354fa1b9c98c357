"""Networks from outside in the assignments of the methods that train a network by its name."""

import json

import pytest

from fleetledger.learning.networks.registry import NETWORKS
from fleetledger.methods.errors import MethodError
from fleetledger.methods.registry import training_coordinator
from tests.outside import added

SHAPE = (1, 8, 8)


def cnn(shape, width=4):
    from torch import nn

    return nn.Sequential(nn.Conv2d(shape[0], width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.fixture(autouse=True)
def _known():
    with added(NETWORKS, "mine", cnn):
        yield


@pytest.mark.parametrize("method", ["rounds", "lga", "dcid"])
def test_options_come_back_from_what_is_sent_and_have_a_hash(method: str):
    side = training_coordinator(method)
    asked = side.assign({"network": "mine", "network_options": {"width": 6}}, SHAPE)
    told = json.loads(json.dumps(asked.model_dump(mode="json")))
    assert told["settings"]["network_options"] == {"width": 6}
    assert side.read_assignment(told) == asked
    assert hash(side.read_assignment(told)) == hash(asked)
    assert asked.coordinator_trains  # it needs torch: to draw, to check and to export


@pytest.mark.torch
@pytest.mark.parametrize("method", ["rounds", "lga", "dcid"])
def test_first_weights_are_those_of_the_factory_with_its_options(method: str):
    side = training_coordinator(method)
    asked = side.assign({"network": "mine", "network_options": {"width": 6}}, SHAPE)
    _, arrays, names = side.network_of(asked, side.first_weights(asked))
    assert arrays["body.0.weight"].shape == (6, 1, 3, 3)
    assert names == ()


@pytest.mark.torch
def test_a_factory_that_fails_is_told_with_the_setting():
    side = training_coordinator("rounds")
    asked = side.assign({"network": "mine", "network_options": {"depth": 6}}, SHAPE)
    with pytest.raises(MethodError, match=r"settings\.network: network 'mine' with depth=6 cannot"):
        side.first_weights(asked)


def test_options_of_a_network_of_the_package_are_refused_with_a_way_out():
    side = training_coordinator("rounds")
    with pytest.raises(MethodError, match="'mlp' is a network of the package and takes none"):
        side.assign({"network": "mlp", "network_options": {"width": 6}}, SHAPE)
