"""Every network's scores, gradients and statistics are those of torchvision's modules."""

import pytest
import torch
from torch import nn

from fleetledger.learning.networks.segmentation.mobilenets import mobilenet_v2
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.learning.networks.segmentation.torch_layers import (
    DensePass,
    TorchDenseLayers,
)
from fleetledger.learning.networks.torch_layers import Mode
from tests.learning.networks.reference import torchvision_module
from tests.learning.networks.segmentation.reference import (
    SMALL_DEEPLAB,
    halves,
    move_statistics,
    pictures,
    small_torchvision_deeplab,
    torchvisions,
    whole_arrays,
)

pytestmark = pytest.mark.torch

MOBILE = ("lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large")


def pair(name):
    """Return our network, torchvision's module, and what its file gives ours."""
    if name == "small deeplab":
        network, module = SMALL_DEEPLAB, small_torchvision_deeplab()
    else:
        network, module = build_segmentation(name, (3, 33, 47)), torchvisions(name)
    arrays = whole_arrays(module.float().state_dict(), network)
    return network, module.double(), halves(arrays)


def without_dropout(module):
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return module


@pytest.mark.parametrize("name", [*MOBILE, "small deeplab"])
def test_scores_of_all_pixels_are_torchvisions(name, tmp_path):
    network, module, (parameters, buffers) = pair(name)
    values = pictures(2, 33, 47)
    with torch.no_grad():
        ours, _ = DensePass(network)(parameters, buffers, values, Mode())
        theirs = module(values)["out"]
    assert ours.logits.shape == (2, 4, 33, 47)
    assert torch.allclose(ours.logits, theirs, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("name", ["lraspp_mobilenet_v3_large", "small deeplab"])
def test_a_step_of_training_is_torchvisions(name, tmp_path):
    network, module, (parameters, buffers) = pair(name)
    without_dropout(module).train()
    leaves = {key: value.clone().requires_grad_() for key, value in parameters.items()}
    values, wanted = pictures(3, 32, 32), torch.arange(3 * 32 * 32).reshape(3, 32, 32) % 4
    mode = Mode(True, dropout=lambda given, rate, layer: given)
    ours, changed = DensePass(network)(leaves, buffers, values, mode)
    nn.functional.cross_entropy(ours.logits, wanted).backward()
    nn.functional.cross_entropy(module(values)["out"], wanted).backward()
    theirs = dict(module.named_parameters())
    shared = [key for key in leaves if key in theirs]
    assert len(shared) == len(leaves) - 2
    for key in shared:
        assert torch.allclose(leaves[key].grad, theirs[key].grad, rtol=1e-6, atol=1e-6), key
    state = module.state_dict()
    assert all(torch.allclose(changed[key], state[key], atol=1e-8) for key in buffers)


def torchvisions_dilated_mobilenet_v2():
    """Return its features up to 320 channels, with the fifth halving made a dilation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        features = torchvision_module("models").mobilenet_v2(weights=None).features[:18]
        move_statistics(features)
    features[14].conv[1][0].stride = (1, 1)
    for number in (15, 16, 17):
        depthwise = features[number].conv[1][0]
        depthwise.dilation, depthwise.padding = (2, 2), (2, 2)
    return features.double().eval()


def test_mobilenet_v2s_maps_are_torchvisions_with_the_last_halving_dilated():
    module, trunk = torchvisions_dilated_mobilenet_v2(), mobilenet_v2()
    state = {f"backbone.{name}": value for name, value in module.state_dict().items()}
    assert {plan.name for plan in trunk.plan()} == {n for n in state if "num_batches" not in n}
    values = pictures(2, 40, 56)
    with torch.no_grad():
        maps = trunk.maps(TorchDenseLayers(state, state, Mode()), values)
        for number, part in enumerate(module):
            values = part(values)
            if number == 6:
                assert torch.allclose(maps.low, values, atol=1e-12)
    assert torch.allclose(maps.high, values, atol=1e-12)
    assert [tuple(group.shape[1:]) for group in maps.groups] == [
        (16, 20, 28),
        (24, 10, 14),
        (32, 5, 7),
        (96, 3, 4),
        (320, 3, 4),
    ]


def test_deeplab_on_resnet101_has_torchvisions_tensors():
    with torch.device("meta"):
        make = torchvision_module("models").segmentation.deeplabv3_resnet101
        theirs = make(weights=None, weights_backbone=None, num_classes=7).state_dict()
    wanted = {
        name: tuple(value.shape)
        for name, value in theirs.items()
        if "num_batches" not in name and not name.startswith("classifier.4")
    }
    shapes = build_segmentation("deeplabv3_resnet101", (3, 32, 32)).shapes(6)
    assert shapes.pop("head.weight") == (7, 256)
    assert shapes.pop("head.bias") == (7,)
    assert shapes == wanted


@pytest.mark.slow
def test_deeplab_on_resnet101_scores_as_torchvisions():
    network, module, (parameters, buffers) = pair("deeplabv3_resnet101")
    values = pictures(1, 32, 32)
    with torch.no_grad():
        ours = DensePass(network)(parameters, buffers, values, Mode())[0].logits
        theirs = module(values)["out"]
    assert float((ours - theirs).abs().max()) <= 1e-6 * float(theirs.abs().max())
