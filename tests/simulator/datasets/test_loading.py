"""From a scenario's settings to a data set: limits, roots, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.datasets.loading import DATA_SETS, DataSet, DataSettings, load_split
from fleetledger.simulator.datasets.npz import load_npz, save_npz
from fleetledger.simulator.errors import DatasetError
from tests.outside import added
from tests.simulator.datasets.drawing import draw_all

NEEDS_ROOT = [name for name, each in DATA_SETS.items() if each.on_disk]


def test_a_scenario_may_name_every_data_set_of_the_table_and_no_other():
    with pytest.raises(
        ValidationError, match="'mine' is unknown; give one of 'digits', 'digit-styles', 'npz'"
    ):
        DataSettings(set="mine")
    read = DataSet(lambda _data, seed: split_digits(seed, 0.5), on_disk=False)
    with added(DATA_SETS, "mine", read):
        found = load_split(DataSettings(set="mine"), 3)
    assert found.train.fingerprint == split_digits(3, 0.5).train.fingerprint


def test_digits_are_split_by_the_share_and_the_seed():
    split = load_split(DataSettings(test_share=0.5), seed=3)
    assert split.train.fingerprint == split_digits(3, 0.5).train.fingerprint
    assert load_split(DataSettings(test_share=0.5), seed=4).train.fingerprint != (
        split.train.fingerprint
    )


def test_an_npz_file_is_read(tmp_path: Path):
    save_npz(tmp_path / "digits.npz", split_digits(0))
    split = load_split(DataSettings(set="npz", root=str(tmp_path / "digits.npz")), seed=0)
    assert split.test.fingerprint == load_npz(tmp_path / "digits.npz").test.fingerprint


def test_only_the_first_of_every_class_are_used():
    whole = load_split(DataSettings(), seed=0)
    few = load_split(DataSettings(per_class=7, test_per_class=2), seed=0)
    for part, everything, number in ((few.train, whole.train, 7), (few.test, whole.test, 2)):
        assert np.bincount(part.labels).tolist() == [number] * 10
        first = [np.flatnonzero(everything.labels == label)[:number] for label in range(10)]
        expected = everything.take(np.sort(np.concatenate(first)))
        assert part.fingerprint == expected.fingerprint


def test_folders_of_pictures_are_limited_too(tmp_path: Path):
    draw_all(tmp_path, *(f"{part}/eel/{i}.png" for part in ("train", "test") for i in range(4)))
    data = DataSettings(set="image-folder", root=str(tmp_path), per_class=3, test_per_class=1)
    split = load_split(data, seed=0)
    assert (len(split.train), len(split.test)) == (3, 1)


@pytest.mark.parametrize("name", NEEDS_ROOT)
def test_a_data_set_on_disk_needs_a_root(name: str):
    with pytest.raises(DatasetError, match=r"data\.root: missing"):
        load_split(DataSettings(set=name), seed=0)


@pytest.mark.parametrize("name", NEEDS_ROOT)
def test_a_data_set_that_is_not_there_names_the_root(name: str, tmp_path: Path):
    root = tmp_path / "nowhere"
    with pytest.raises(DatasetError) as caught:
        load_split(DataSettings(set=name, root=str(root)), seed=0)
    assert str(root) in str(caught.value) or "pip install" in str(caught.value)


def test_a_part_without_pictures_is_refused(tmp_path: Path):
    draw_all(tmp_path, "eel/1.png", "fox/2.png")
    with pytest.raises(DatasetError, match=r"2 samples to learn from and 0 .* data\.test_share"):
        load_split(DataSettings(set="image-folder", root=str(tmp_path)), seed=0)
