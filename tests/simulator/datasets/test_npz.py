"""A data set in one file, written and read back, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.packs.to_npz import decode, encode, read_packs
from fleetledger.simulator.datasets.npz import load_npz, save_npz
from fleetledger.simulator.errors import DatasetError


def arrays(**other: np.ndarray) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "train_x": random.integers(0, 256, (6, 4, 5, 3), dtype=np.uint8),
        "train_y": np.array([0, 1, 2, 0, 1, 2]),
        "test_x": random.integers(0, 256, (3, 4, 5, 3), dtype=np.uint8),
        "test_y": np.array([2, 1, 0], np.uint8),
        "class_names": np.array(["eel", "fox", "gnu"]),
        **other,
    }


def test_what_is_written_is_read_back(tmp_path: Path):
    np.savez(tmp_path / "given.npz", **arrays())
    split = load_npz(tmp_path / "given.npz")
    save_npz(tmp_path / "again.npz", split)
    again = load_npz(tmp_path / "again.npz")
    for part, which in ((again.train, "train"), (again.test, "test")):
        assert np.array_equal(part.images, arrays()[f"{which}_x"])
        assert np.array_equal(part.labels, arrays()[f"{which}_y"])
        assert part.class_names == ("eel", "fox", "gnu")


def test_grey_images_and_owners_are_written_and_read_back(tmp_path: Path):
    grey = {name: arrays()[name][..., 0] for name in ("train_x", "test_x")}
    owners = {"train_owner": np.arange(6, dtype=np.uint8), "test_owner": np.array([7, 5, 5])}
    np.savez(tmp_path / "given.npz", **arrays(**grey, **owners))
    save_npz(tmp_path / "again.npz", load_npz(tmp_path / "given.npz"))
    again = load_npz(tmp_path / "again.npz")
    for part, which in ((again.train, "train"), (again.test, "test")):
        assert np.array_equal(part.images, grey[f"{which}_x"])
        assert part.picture(1).mode == "L"
        assert np.array_equal(part.owners, owners[f"{which}_owner"])
        assert part.owners.dtype == np.int64


def test_without_owners_there_are_none(tmp_path: Path):
    np.savez(tmp_path / "given.npz", **arrays(train_owner=np.arange(6)))
    split = load_npz(tmp_path / "given.npz")
    assert split.train.owners is not None
    assert split.test.owners is None


def test_the_first_images_of_every_class_are_taken_in_order(tmp_path: Path):
    np.savez(tmp_path / "given.npz", **arrays(train_y=np.array([0, 0, 1, 0, 1, 1])))
    few = load_npz(tmp_path / "given.npz").train.at_most(2)
    assert few.labels.tolist() == [0, 0, 1, 1]
    assert np.array_equal(few.images, arrays()["train_x"][[0, 1, 2, 4]])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"train_x": np.zeros((6, 4, 5), np.uint8)}, "both as RGB or both as grey"),
        ({"train_x": np.zeros((6, 4, 5, 4), np.uint8)}, "train: images"),
        ({"train_owner": np.zeros(6)}, "train_owner"),
        ({"test_owner": np.zeros(2, np.int64)}, "test: owners"),
        ({"test_x": np.zeros((3, 4, 5, 3))}, "test: images"),
        ({"train_y": np.zeros(5, np.int64)}, "train: labels"),
        ({"train_y": np.zeros(6)}, "train_y"),
        ({"test_y": np.array([0, 1, 3])}, "test: labels"),
        ({"class_names": np.array(["eel", "fox", "eel"])}, "twice"),
        ({"class_names": np.array(["eel", "fox", "../gnu"])}, "class_names"),
        ({"class_names": np.arange(3)}, "class_names"),
        ({"class_names": np.array([None, "a"], object)}, "allow_pickle"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(tmp_path: Path, wrong, named: str):
    np.savez(tmp_path / "given.npz", **arrays(**wrong))
    with pytest.raises(DatasetError, match=named):
        load_npz(tmp_path / "given.npz")


def test_a_missing_array_is_named(tmp_path: Path):
    np.savez(tmp_path / "given.npz", class_names=np.array(["eel"]))
    with pytest.raises(DatasetError, match="train_x: is missing"):
        load_npz(tmp_path / "given.npz")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 torn"])
def test_another_file_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "given.npz").write_bytes(content)
    with pytest.raises(DatasetError, match="cannot be read"):
        load_npz(tmp_path / "given.npz")


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(DatasetError, match="cannot be read"):
        load_npz(tmp_path / "none.npz")


def test_differences_are_undone_exactly():
    images = np.random.default_rng(1).integers(0, 256, (5, 7, 6, 3), dtype=np.uint8)
    assert np.array_equal(decode(encode(images)), images)


def test_differences_run_down_columns_then_along_rows_then_to_green():
    image = np.array([[[10, 20, 30], [11, 22, 33]], [[15, 26, 37], [200, 100, 50]]], np.uint8)
    red, green, blue = (image[..., channel].astype(int) for channel in range(3))
    for position, plane in enumerate((red - green, green, blue - green)):
        along = np.diff(plane, axis=1, prepend=0)
        down = np.diff(along, axis=0, prepend=0) % 256
        assert np.array_equal(encode(image[np.newaxis])[0, position], down)


def test_packs_are_joined_and_one_may_lack_test_images(tmp_path: Path):
    given = arrays()
    for name in ("first", "second"):
        test = {"test_x_delta": encode(given["test_x"]), "test_y": given["test_y"]}
        np.savez(
            tmp_path / f"{name}.npz",
            train_x_delta=encode(given["train_x"]),
            train_y=given["train_y"],
            names=given["class_names"],
            **(test if name == "first" else {}),
        )
    split = read_packs([tmp_path / "first.npz", tmp_path / "second.npz"], "names")
    assert np.array_equal(split.train.images, np.concatenate([given["train_x"]] * 2))
    assert np.array_equal(split.test.images, given["test_x"])
    assert split.test.labels.tolist() == [2, 1, 0]
