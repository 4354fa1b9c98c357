"""Pictures and masks as arrays of one size, as training and evaluation take them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from device_agent.sources.scenes import LabelledScene
from simulator.datasets.segmentation.images import SegmentedImages
from simulator.datasets.segmentation.samples import BACKGROUND, IGNORED, SegmentedSamples
from simulator.errors import DatasetError

Size = tuple[int, int]
"""Height and width in pixels."""


def stack_scenes(
    samples: SegmentedSamples, indices: Sequence[int] | NDArray[np.int64], size: Size | None = None
) -> SegmentedImages:
    """Return some pictures (N, 3, h, w) with their masks (N, h, w).

    With `size` every picture is brought to it by `letterbox`; without, all must be of one size, or
    `DatasetError` names two that differ. There must be at least one.
    """
    scenes = [samples.scene(int(index)) for index in indices]
    if size is not None:
        scenes = [letterbox(scene, size) for scene in scenes]
    for index, scene in zip(indices, scenes, strict=True):
        if scene.mask.shape != scenes[0].mask.shape:
            raise DatasetError(
                f"pictures {int(indices[0])} and {int(index)} are of {scenes[0].mask.shape} and "
                f"{scene.mask.shape} pixels (height, width); give a size to bring them to"
            )
    pictures = np.stack([scene.picture for scene in scenes])
    return SegmentedImages(
        pictures, np.stack([scene.mask for scene in scenes]), samples.class_names
    )


def letterbox(scene: LabelledScene, size: Size) -> LabelledScene:
    """Return a scene scaled to fit into `size`, at the top left; the rest is black and 255.

    Pictures are scaled bilinearly with antialiasing, masks by the nearest pixel. Nothing is cut
    off, so no class gets lost but to pixels becoming few.
    """
    height, width = scene.mask.shape
    if (height, width) == size:
        return scene
    scale = min(size[0] / height, size[1] / width)
    inner = (max(1, round(height * scale)), max(1, round(width * scale)))
    picture = np.full((3, *size), BACKGROUND, np.uint8)
    mask = np.full(size, IGNORED, np.uint8)
    colours = Image.fromarray(np.ascontiguousarray(scene.picture.transpose(1, 2, 0)))
    picture[:, : inner[0], : inner[1]] = np.asarray(
        colours.resize(inner[::-1], Image.Resampling.BILINEAR)
    ).transpose(2, 0, 1)
    mask[: inner[0], : inner[1]] = np.asarray(
        Image.fromarray(scene.mask).resize(inner[::-1], Image.Resampling.NEAREST)
    )
    return LabelledScene(picture, mask)
