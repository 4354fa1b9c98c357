"""Finding the module of a data set with masks by its name."""

from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.datasets.segmentation.loading import load_segmentation
from fleetledger.simulator.datasets.segmentation.npz import save_segmentation_npz
from fleetledger.simulator.datasets.segmentation.samples import SegmentedSplit
from fleetledger.simulator.errors import DatasetError
from fleetledger.simulator.scenario.sections import SCENES, DataSettings
from tests.simulator.datasets.segmentation.making import names, random_pictures, random_scenes


def test_digit_scenes_need_no_root_and_obey_their_settings():
    data = DataSettings.model_validate({"set": "digit-scenes", "scenes": {"train": 3, "test": 2}})
    split = load_segmentation(data, seed=1)
    assert (len(split.train), len(split.test)) == (3, 2)
    other = load_segmentation(data, seed=2)
    assert split.train.fingerprint != other.train.fingerprint
    fewer = load_segmentation(data.model_copy(update={"test_share": 0.9}), seed=1)
    assert split.train.fingerprint != fewer.train.fingerprint


def test_a_file_goes_by_its_path(tmp_path: Path):
    scenes = random_scenes(3, 2)
    save_segmentation_npz(tmp_path / "set.npz", SegmentedSplit(scenes, scenes))
    data = DataSettings(set="segmentation-npz", root=str(tmp_path / "set.npz"))
    assert load_segmentation(data, 0).train.fingerprint == scenes.fingerprint


def test_of_every_class_the_first_pictures_are_taken(tmp_path: Path):
    values = np.array([[1, 1], [1, 2], [1, 1], [2, 2], [1, 2], [3, 3], [0, 255]], np.uint8)
    scenes = SegmentedImages(random_pictures(7, (1, 2)), values[:, None], names(3))
    save_segmentation_npz(tmp_path / "set.npz", SegmentedSplit(scenes, scenes))
    root = str(tmp_path / "set.npz")
    data = DataSettings(set="segmentation-npz", root=root, per_class=2, test_per_class=1)
    split = load_segmentation(data, 0)
    assert split.train.fingerprint == scenes.take(np.array([0, 1, 3, 5])).fingerprint
    assert split.test.fingerprint == scenes.take(np.array([0, 1, 5])).fingerprint


def test_a_set_in_which_nothing_is_shown_is_refused(tmp_path: Path):
    scenes = SegmentedImages(random_pictures(2), np.zeros((2, 6, 5), np.uint8), names(1))
    save_segmentation_npz(tmp_path / "set.npz", SegmentedSplit(scenes, scenes))
    data = DataSettings(set="segmentation-npz", root=str(tmp_path / "set.npz"), per_class=2)
    with pytest.raises(DatasetError, match="0 pictures to learn from"):
        load_segmentation(data, 0)


@pytest.mark.parametrize("name", [name for name in SCENES if name != "digit-scenes"])
def test_a_set_without_its_root_or_files_is_told(name, tmp_path: Path):
    with pytest.raises(DatasetError, match=f"data.root: missing; '{name}' lies on disk"):
        load_segmentation(DataSettings(set=name), 0)
    with pytest.raises(DatasetError, match=str(tmp_path)):
        load_segmentation(DataSettings(set=name, root=str(tmp_path / "no")), 0)


def test_a_set_without_masks_is_refused():
    with pytest.raises(DatasetError, match="'digits' has no masks; give one of digit-scenes"):
        load_segmentation(DataSettings(), 0)
