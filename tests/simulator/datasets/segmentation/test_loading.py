"""From a scenario to a data set with masks: settings, files and limits."""

from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.loading import DataSettings, load_split
from fleetledger.simulator.datasets.npz import save_npz
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.segmentation.making import names, random_pictures, random_scenes


def test_digit_scenes_need_no_root_and_obey_their_settings():
    data = DataSettings.model_validate({"set": "digit-scenes", "scenes": {"train": 3, "test": 2}})
    split = load_split(data, seed=1)
    assert (len(split.train), len(split.test)) == (3, 2)
    other = load_split(data, seed=2)
    assert split.train.fingerprint != other.train.fingerprint
    fewer = load_split(data.model_copy(update={"test_share": 0.9}), seed=1)
    assert split.train.fingerprint != fewer.train.fingerprint


def test_a_file_goes_by_its_path(tmp_path: Path):
    scenes = random_scenes(3, 2)
    save_npz(tmp_path / "set.npz", Split(scenes, scenes))
    data = DataSettings(set="segmentation-npz", root=str(tmp_path / "set.npz"))
    assert load_split(data, 0).train.fingerprint == scenes.fingerprint


def test_of_every_class_the_first_pictures_are_taken(tmp_path: Path):
    values = np.array([[1, 1], [1, 2], [1, 1], [2, 2], [1, 2], [3, 3], [0, 255]], np.uint8)
    scenes = SegmentedImages(random_pictures(7, (1, 2)), values[:, None], names(3))
    save_npz(tmp_path / "set.npz", Split(scenes, scenes))
    root = str(tmp_path / "set.npz")
    data = DataSettings(set="segmentation-npz", root=root, per_class=2, test_per_class=1)
    split = load_split(data, 0)
    assert split.train.fingerprint == scenes.take(np.array([0, 1, 3, 5])).fingerprint
    assert split.test.fingerprint == scenes.take(np.array([0, 1, 5])).fingerprint


def test_a_set_in_which_nothing_is_shown_is_refused(tmp_path: Path):
    scenes = SegmentedImages(random_pictures(2), np.zeros((2, 6, 5), np.uint8), names(1))
    save_npz(tmp_path / "set.npz", Split(scenes, scenes))
    data = DataSettings(set="segmentation-npz", root=str(tmp_path / "set.npz"), per_class=2)
    with pytest.raises(DatasetError, match="0 samples to learn from"):
        load_split(data, 0)
