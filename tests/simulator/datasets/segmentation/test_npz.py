"""A segmentation data set in one file."""

from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.npz import (
    load_segmentation_npz,
    save_npz,
)
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.segmentation.making import random_scenes


def written(path: Path, **changed) -> Path:
    save_npz(path, Split(random_scenes(4, 3), random_scenes(2, 3, seed=1)))
    with np.load(path) as arrays:
        content = {**arrays, **changed}
    np.savez(path, **{name: array for name, array in content.items() if array is not None})
    return path


def test_what_was_written_is_read(tmp_path: Path):
    split = load_segmentation_npz(written(tmp_path / "set.npz", extra=np.zeros(3)))
    assert split.train.fingerprint == random_scenes(4, 3).fingerprint
    assert split.test.fingerprint == random_scenes(2, 3, seed=1).fingerprint


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"test_mask": None}, "test_mask: is missing"),
        ({"class_names": np.arange(3)}, "class_names: int64"),
        ({"class_names": np.array(["a", "b"])}, "train: masks: number 0: .* value 3"),
        (
            {"train_x": np.zeros((4, 6, 5), np.uint8)},
            r"train: images: uint8 of shape \(4, 6, 5\); give",
        ),
        ({"train_mask": np.zeros((4, 6, 5))}, "train: masks: float64"),
        ({"train_x": np.array([{}])}, "cannot be read"),
    ],
)
def test_what_does_not_fit_is_told(changed: dict, told: str, tmp_path: Path):
    with pytest.raises(DatasetError, match=told):
        load_segmentation_npz(written(tmp_path / "set.npz", **changed))


def test_a_file_that_is_none_is_told(tmp_path: Path):
    with pytest.raises(DatasetError, match="cannot be read"):
        load_segmentation_npz(tmp_path / "none.npz")
