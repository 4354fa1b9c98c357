"""torchvision's state dicts, whole or of the trunk alone, become a network's tensors."""

import numpy as np
import pytest
import torch

from fleetledger.learning.errors import NetworkError
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.learning.networks.weights_file import read_trunk
from tests.learning.networks.reference import torchvision_module
from tests.learning.networks.segmentation.reference import (
    SMALL_DEEPLAB,
    small_torchvision_deeplab,
)

pytestmark = pytest.mark.torch


@pytest.fixture
def state():
    return small_torchvision_deeplab().float().state_dict()


def trunk_of(arrays):
    return {name for name in arrays if name.startswith("backbone.")}


@pytest.mark.parametrize(
    ("name", "pictures"),
    [
        ("lraspp_mobilenet_v2", "mobilenet_v2"),
        ("deeplabv3_mobilenet_v3_large", "mobilenet_v3_large"),
    ],
)
def test_a_classifiers_file_gives_the_trunk_of_its_features(tmp_path, name, pictures):
    network = build_segmentation(name, (3, 32, 32))
    given = getattr(torchvision_module("models"), pictures)(weights=None).state_dict()
    path = tmp_path / "imagenet.pth"
    torch.save(given, path)
    arrays = read_trunk(path, network)
    assert set(arrays) == {plan.name for plan in network.body.trunk.plan()}
    first = given["features.0.0.weight"].numpy()
    np.testing.assert_array_equal(arrays["backbone.0.0.weight"], first)


def test_a_residual_trunk_is_read_from_either_kind_of_file(tmp_path, state):
    alone = {
        name.removeprefix("backbone."): value
        for name, value in state.items()
        if name.startswith("backbone.")
    }
    read = []
    for file, content in (("whole.pth", state), ("trunk.pth", {**alone, "fc.bias": torch.ones(1)})):
        torch.save(content, tmp_path / file)
        read.append(read_trunk(tmp_path / file, SMALL_DEEPLAB))
    assert set(read[0]) == trunk_of(SMALL_DEEPLAB.shapes(1))
    assert all((read[0][name] == read[1][name]).all() for name in read[0])


def test_a_file_without_the_networks_tensors_is_refused(tmp_path, state):
    path = tmp_path / "other.pth"
    torch.save({**state, "backbone.conv1.weight": torch.zeros(1)}, path)
    with pytest.raises(NetworkError, match=r"'backbone\.conv1\.weight' .* is \(1,\), not"):
        read_trunk(path, SMALL_DEEPLAB)
    torch.save({name: value for name, value in state.items() if "layer4" not in name}, path)
    with pytest.raises(NetworkError, match="missing, not"):
        read_trunk(path, SMALL_DEEPLAB)
