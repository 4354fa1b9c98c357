"""How a network that segments sees the pictures of a data set."""

from __future__ import annotations

from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.errors import BackboneError

IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colours on which published trunks were trained."""
CENTRE, SPREAD = (0.5,) * 3, (0.25,) * 3
"""By which a network that begins from nothing sees values from -2 to 2."""
_LOOKED_AT = 50


def scene_preprocessing(
    split: Split[TaskScenes], size: tuple[int, int] | None, pretrained: bool
) -> Preprocessing:
    """Return how pictures, all RGB, are stretched to `size` (height, width) and normalised.

    A trunk that was `pretrained` gets them as ImageNet's are, another centred. Raises
    `BackboneError` where pictures differ in size and `size` is None.
    """
    sizes = _sizes(split.train) | _sizes(split.test)
    if size is None and len(sizes) != 1:
        raise BackboneError(
            f"backbone.size: missing; the pictures have sizes such as {sorted(sizes)[:3]}, so say "
            "to how many pixels they are stretched: one side, or [height, width]"
        )
    wanted = size if size is not None else next(iter(sizes))
    return Preprocessing(
        mode="RGB",
        size=wanted,
        interpolation="nearest" if sizes == {wanted} else "bilinear",
        mean=IMAGENET_MEAN if pretrained else CENTRE,
        deviation=IMAGENET_DEVIATION if pretrained else SPREAD,
        input_name="image",
    )


def _sizes(samples: TaskScenes) -> set[tuple[int, int]]:
    """Return height and width of some pictures from all over the set."""
    scenes = samples.scenes
    step = max(1, len(scenes) // _LOOKED_AT)
    looked_at = (scenes.scene(index).mask.shape for index in range(0, len(scenes), step))
    return {(height, width) for height, width in looked_at}
