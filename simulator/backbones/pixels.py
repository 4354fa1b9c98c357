"""The smallest frozen network: a picture's pixels, divided by 255, are its features."""

from __future__ import annotations

from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import BackboneError

_LOOKED_AT = 50


def pixels_backbone(split: Split, size: tuple[int, int] | None) -> Backbone:
    """Return the backbone for pictures as they are, or stretched to `size` (height, width).

    Grey pictures stay grey. Raises `BackboneError` where pictures differ in size and `size` is
    None, and for texts.
    """
    looks = _looks(split.train) | _looks(split.test)
    sizes = {(height, width) for _, height, width in looks}
    if size is None and len(sizes) != 1:
        raise BackboneError(
            f"backbone.size: missing; the pictures have sizes such as {sorted(sizes)[:3]}, so say "
            "to how many pixels along a side they are stretched"
        )
    height, width = size if size is not None else next(iter(sizes))
    channels = 1 if {mode for mode, *_ in looks} == {"L"} else 3
    preprocessing = Preprocessing(
        mode="L" if channels == 1 else "RGB",
        size=(height, width),
        interpolation="nearest" if sizes == {(height, width)} else "bilinear",
        mean=(0.0,) * channels,
        deviation=(1.0,) * channels,
        input_name="image",
    )
    return Backbone("pixels", scaling_backbone(preprocessing), preprocessing)


def _looks(samples: SampleSet) -> set[tuple[str, int, int]]:
    """Return mode, height and width of some pictures from all over the set."""
    step = max(1, len(samples) // _LOOKED_AT)
    looks = set()
    for index in range(0, len(samples), step):
        picture = samples.picture(index)
        if isinstance(picture, bytes):
            raise BackboneError(
                "backbone.network: 'pixels', but the samples are texts; give 'characters', or "
                "'file' with an encoder of token ids (docs/text.md)"
            )
        looks.add((picture.mode, picture.height, picture.width))
    return looks
