"""A segmentation network of a few numbers, and work for it."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from fleetledger.learning.losses.segmentation.step import DenseOutputs
from tests.learning.losses.segmentation.scene import CHANNELS, IMAGES, OLD

SIDE = 9


@dataclass(frozen=True)
class Tiny:
    """Two residual groups' worth of maps, a pyramid's, and a head; counts its passes in use."""

    def __call__(self, parameters, buffers, inputs, mode):
        """Return outputs and buffers, in which training passes are counted."""
        first = functional.conv2d(inputs, parameters["first"], stride=2, padding=1).relu()
        second = functional.conv2d(first, parameters["second"], padding=1).tanh()
        third = functional.conv2d(second, parameters["third"], padding=1).tanh()
        small = functional.conv2d(third, parameters["head.weight"], parameters["head.bias"])
        logits = functional.interpolate(
            small, size=inputs.shape[-2:], mode="bilinear", align_corners=False
        )
        passes = buffers["passes"] + (1 if mode.training else 100)
        return DenseOutputs((first, second, third), small, logits), {"passes": passes}


def parameters(seed, channels, dtype=torch.float64):
    """Return drawn parameters with so many rows in the head."""
    draw = torch.Generator().manual_seed(seed)
    shapes = {
        "first": (4, 3, 3, 3),
        "second": (5, 4, 3, 3),
        "third": (4, 5, 3, 3),
        "head.weight": (channels, 4, 1, 1),
        "head.bias": (channels,),
    }
    return {
        name: torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype) * 0.7
        for name, shape in shapes.items()
    }


def pictures(seed=0, number=IMAGES, dtype=torch.float64):
    """Return pictures (n, 3, 9, 9) and masks with background, class 5 and ignored pixels."""
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(number, 3, SIDE, SIDE, generator=draw, dtype=torch.float64).to(dtype)
    kinds = torch.tensor([0, 0, 0, 5, 255], dtype=torch.uint8)
    return inputs, kinds[torch.randint(5, (number, SIDE, SIDE), generator=draw)]


NOW = parameters(1, CHANNELS)
BEFORE = parameters(2, OLD)
BUFFERS = {"passes": torch.zeros(())}
