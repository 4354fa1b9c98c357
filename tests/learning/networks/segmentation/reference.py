"""Torchvision's segmentation networks beside ours, with statistics as training leaves them."""

import numpy as np

from fleetledger.learning.networks.head import BIAS, WEIGHT
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.networks.segmentation.aspp import Aspp
from fleetledger.learning.networks.segmentation.layers import DenseBody
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.segmentation.residual import ResidualTrunk

ROWS = 4
NAMES = ("cat", "dog", "owl")
_TRUNK = ResidualTrunk((1, 2, 2, 2), (False, True, True), stem=4)
SMALL_DEEPLAB = SegmentationNetwork(DenseBody(_TRUNK, Aspp(_TRUNK.high_width, width=8)))
"""DeepLab-v3 as on ResNet-101, with fewer and thinner blocks."""


def used(network: SegmentationNetwork) -> dict[str, np.ndarray]:
    """Return tensors with running statistics that are not those of the first moment."""
    random = np.random.default_rng(3)
    arrays = dict(network.initial(7, NAMES))
    for name, array in arrays.items():
        if name.endswith("running_var"):
            arrays[name] = random.uniform(0.5, 2, array.shape).astype(np.float32)
        elif name.endswith("running_mean"):
            arrays[name] = random.normal(0, 0.3, array.shape).astype(np.float32)
    return arrays


def whole_arrays(state, network: SegmentationNetwork) -> dict[str, np.ndarray]:
    """Return all tensors of a torchvision's module, LR-ASPP's two classifiers side by side."""
    import torch

    two = [f"classifier.{part}_classifier" for part in ("low", "high")]
    names = two if f"{two[0]}.weight" in state else ["classifier.4"]
    rows = {
        WEIGHT: torch.cat([state[f"{name}.weight"].flatten(1) for name in names], dim=1),
        BIAS: torch.stack([state[f"{name}.bias"] for name in names]).sum(dim=0),
    }
    body = {plan.name: state[plan.name] for plan in network.body.plan()}
    return {name: value.numpy() for name, value in {**body, **rows}.items()}


def halves(arrays):
    """Return parameters and buffers as float64 tensors."""
    import torch

    tensors = {name: torch.from_numpy(np.array(array)).double() for name, array in arrays.items()}
    parameters = {name: value for name, value in tensors.items() if not is_buffer(name)}
    return parameters, {name: value for name, value in tensors.items() if is_buffer(name)}


def pictures(samples: int, height: int, width: int):
    import torch

    generator = torch.Generator().manual_seed(1)
    return torch.randn(samples, 3, height, width, generator=generator).double()


def torchvisions(name: str):
    """Return torchvision's module of that name with `ROWS` classes, statistics moved."""
    import torch

    from tests.learning.networks.reference import torchvision_module

    make = getattr(torchvision_module("models").segmentation, name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        module = make(weights=None, weights_backbone=None, num_classes=ROWS)
        move_statistics(module)
    return module.double().eval()


def move_statistics(module) -> None:
    for name, value in module.named_buffers():
        if name.endswith("running_mean"):
            value.normal_(0, 0.1)
        elif name.endswith("running_var"):
            value.uniform_(0.5, 1.5)


def small_torchvision_deeplab():
    """Return torchvision's DeepLab-v3 of the shape of `SMALL_DEEPLAB`."""
    import torch
    from torch import nn

    from tests.learning.networks.reference import torchvision_module

    models = torchvision_module("models")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        trunk = nn.ModuleDict({"conv1": nn.Conv2d(3, 4, 7, 2, 3, bias=False)})
        trunk["bn1"], trunk["relu"] = nn.BatchNorm2d(4), nn.ReLU()
        trunk["maxpool"] = nn.MaxPool2d(3, 2, 1)
        maker = models.resnet.ResNet.__new__(models.resnet.ResNet)
        maker._norm_layer, maker.inplanes, maker.dilation = nn.BatchNorm2d, 4, 1
        maker.groups, maker.base_width = 1, 64
        for group, count in enumerate((1, 2, 2, 2)):
            trunk[f"layer{group + 1}"] = maker._make_layer(
                models.resnet.Bottleneck, 4 << group, count, 2 if group else 1, group > 1
            )
        getter = models._utils.IntermediateLayerGetter(trunk, {"layer4": "out"})
        head = nn.Sequential(
            models.segmentation.deeplabv3.ASPP(128, (12, 24, 36), 8),
            nn.Conv2d(8, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, ROWS, 1),
        )
        module = models.segmentation.DeepLabV3(getter, head)
        move_statistics(module)
    return module.double().eval()
