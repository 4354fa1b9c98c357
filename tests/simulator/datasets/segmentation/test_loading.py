"""Finding the module of a data set by its name."""

from pathlib import Path
from typing import get_args

import pytest

from simulator.datasets.segmentation.loading import (
    SegmentationSet,
    SegmentationSettings,
    load_segmentation,
)
from simulator.datasets.segmentation.npz import save_segmentation_npz
from simulator.datasets.segmentation.samples import SegmentedSplit
from simulator.errors import DatasetError
from tests.simulator.datasets.segmentation.making import random_scenes


def test_digit_scenes_need_no_root_and_obey_their_settings():
    settings = SegmentationSettings.model_validate({"scenes": {"train": 3, "test": 2}})
    split = load_segmentation(settings, seed=1)
    assert (len(split.train), len(split.test)) == (3, 2)
    other = load_segmentation(settings, seed=2)
    assert split.train.fingerprint != other.train.fingerprint


def test_a_file_goes_by_its_path(tmp_path: Path):
    scenes = random_scenes(3, 2)
    save_segmentation_npz(tmp_path / "set.npz", SegmentedSplit(scenes, scenes))
    settings = SegmentationSettings(set="segmentation-npz", root=str(tmp_path / "set.npz"))
    assert load_segmentation(settings, 0).train.fingerprint == scenes.fingerprint


@pytest.mark.parametrize("name", [n for n in get_args(SegmentationSet) if n != "digit-scenes"])
def test_a_set_without_its_root_or_files_is_told(name, tmp_path: Path):
    with pytest.raises(DatasetError, match=f"root: missing; '{name}' lies on disk"):
        load_segmentation(SegmentationSettings(set=name), 0)
    with pytest.raises(DatasetError, match=str(tmp_path)):
        load_segmentation(SegmentationSettings(set=name, root=str(tmp_path / "no")), 0)
