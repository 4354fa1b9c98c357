"""How a network that segments sees the pictures of a data set."""

from __future__ import annotations

from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.backbones.pixels import Size, looks_of, stretched
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes

IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colours on which published trunks were trained."""
CENTRE, SPREAD = (0.5,) * 3, (0.25,) * 3
"""By which a network that begins from nothing sees values from -2 to 2."""


def scene_preprocessing(
    split: Split[TaskScenes], size: Size | None, pretrained: bool
) -> Preprocessing:
    """Return how pictures, all RGB, are stretched to `size` (height, width) and normalised.

    A trunk that was `pretrained` gets them as ImageNet's are, another centred. Raises
    `BackboneError` where pictures differ in size and `size` is None.
    """
    wanted, interpolation = stretched(looks_of(split.train.scenes, split.test.scenes), size)
    return Preprocessing(
        mode="RGB",
        size=wanted,
        interpolation=interpolation,
        mean=IMAGENET_MEAN if pretrained else CENTRE,
        deviation=IMAGENET_DEVIATION if pretrained else SPREAD,
        input_name="image",
    )
