"""The smallest frozen network: a picture's pixels, divided by 255, or an array's numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from fleetledger.export.scaling_backbone import scaling_backbone
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.backbones.rocket import array_preprocessing
from fleetledger.simulator.datasets.arrays import LabelledArrays
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.errors import BackboneError

_LOOKED_AT = 50
Size = tuple[int, int]
Look = tuple[str, int, int]
"""Mode, height and width."""


def pixels_backbone(split: Split, size: Size | None) -> Backbone:
    """Return the backbone for arrays, or for pictures as they are or stretched to `size`.

    That is (height, width). Grey pictures stay grey. Raises `BackboneError` where pictures differ
    in size and `size` is None, and for texts.
    """
    if isinstance(split.train, LabelledArrays):
        if size is not None:
            raise BackboneError(
                f"backbone.size: {list(size)}, but the samples are arrays of shape "
                f"{list(split.train.shape)}; leave it out"
            )
        as_they_are = array_preprocessing(split)
        return Backbone("numbers", scaling_backbone(as_they_are), as_they_are)
    looks = looks_of(split.train, split.test)
    wanted, interpolation = stretched(looks, size)
    channels = 1 if {mode for mode, *_ in looks} == {"L"} else 3
    preprocessing = Preprocessing(
        mode="L" if channels == 1 else "RGB",
        size=wanted,
        interpolation=interpolation,
        mean=(0.0,) * channels,
        deviation=(1.0,) * channels,
        input_name="image",
    )
    return Backbone("pixels", scaling_backbone(preprocessing), preprocessing)


def stretched(
    looks: Collection[Look], size: Size | None
) -> tuple[Size, Literal["nearest", "bilinear"]]:
    """Return to which size pictures are stretched, and how.

    Raises `BackboneError` where they differ in size and `size` is None.
    """
    sizes = {(height, width) for _, height, width in looks}
    if size is None and len(sizes) != 1:
        raise BackboneError(
            f"backbone.size: missing; the pictures have sizes such as {sorted(sizes)[:3]}, so say "
            "to how many pixels they are stretched: one side, or of pictures with masks "
            "[height, width]"
        )
    wanted = size if size is not None else next(iter(sizes))
    return wanted, "nearest" if sizes == {wanted} else "bilinear"


def looks_of(*parts: SampleSet) -> set[Look]:
    """Return mode, height and width of some pictures from all over the parts.

    Raises `BackboneError` for texts.
    """
    looks = set()
    for samples in parts:
        for index in range(0, len(samples), max(1, len(samples) // _LOOKED_AT)):
            picture = samples.picture(index)
            if isinstance(picture, bytes):
                raise BackboneError(
                    "backbone.network: 'pixels', but the samples are texts; give 'characters', or "
                    "'file' with an encoder of token ids (docs/text.md)"
                )
            looks.add((picture.mode, picture.height, picture.width))
    return looks
