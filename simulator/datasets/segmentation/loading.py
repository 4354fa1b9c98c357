"""From settings to pictures with masks: one line for each data set."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from schemas.message import Strict
from simulator.datasets.segmentation.ade20k import load_ade20k
from simulator.datasets.segmentation.camvid import load_camvid
from simulator.datasets.segmentation.digit_scenes import SceneSettings, split_digit_scenes
from simulator.datasets.segmentation.npz import load_segmentation_npz
from simulator.datasets.segmentation.samples import SegmentedSplit
from simulator.datasets.segmentation.voc import load_voc
from simulator.errors import DatasetError

SegmentationSet = Literal["digit-scenes", "voc", "ade20k", "camvid", "segmentation-npz"]


class SegmentationSettings(Strict):
    """Which pictures with masks."""

    set: SegmentationSet = "digit-scenes"
    """Name of the data set; docs/datasets.md describes them."""
    root: str | None = None
    """Folder of the data set, or the file of `segmentation-npz`. `digit-scenes` needs none."""
    scenes: SceneSettings = SceneSettings()
    """Number and size of `digit-scenes`."""


def load_segmentation(settings: SegmentationSettings, seed: int) -> SegmentedSplit:
    """Return the data set in two parts; `seed` draws those that are made on the spot.

    Raises `DatasetError` that says what is missing, and what to put where.
    """
    match settings.set:
        case "digit-scenes":
            return split_digit_scenes(settings.scenes, seed)
        case "voc":
            return load_voc(_root(settings))
        case "ade20k":
            return load_ade20k(_root(settings))
        case "camvid":
            return load_camvid(_root(settings))
        case "segmentation-npz":
            return load_segmentation_npz(_root(settings, "the .npz file"))


def _root(settings: SegmentationSettings, what: str = "the folder of the data set") -> Path:
    if settings.root is None:
        raise DatasetError(
            f"root: missing; {settings.set!r} lies on disk, so give {what} (docs/datasets.md tells "
            "the layout)"
        )
    return Path(settings.root).expanduser()
