"""Pictures with masks on the disk, and the memory of what is in them."""

import os
from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.datasets.segmentation.files import Pair, SegmentedFiles, read_indices
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.segmentation.making import (
    names,
    random_masks,
    random_pictures,
    save_mask,
    save_picture,
)

PICTURES, MASKS = random_pictures(4), random_masks(4, 9, (6, 5))


@pytest.fixture
def files(tmp_path: Path) -> SegmentedFiles:
    pairs = tuple(Pair(f"x/{number}.png", f"y/{number}.png") for number in range(4))
    for pair, picture, mask in zip(pairs, PICTURES, MASKS, strict=True):
        save_picture(tmp_path / pair.picture, picture)
        save_mask(tmp_path / pair.mask, mask)
    return SegmentedFiles(tmp_path, pairs, names(9))


def test_a_scene_is_read_as_it_was_written(files: SegmentedFiles):
    for index in range(4):
        scene = files.scene(index)
        assert np.array_equal(scene.picture, PICTURES[index])
        assert np.array_equal(scene.mask, MASKS[index])
        assert np.array_equal(files.mask(index), MASKS[index])


def test_grey_pictures_become_three_channels(files: SegmentedFiles):
    grey = np.arange(30, dtype=np.uint8).reshape(6, 5)
    save_mask(files.root / "x/0.png", grey, palette=False)
    assert np.array_equal(files.scene(0).picture, np.stack([grey] * 3, axis=-1))


def test_pixels_of_classes_are_counted(files: SegmentedFiles):
    expected = [[int((mask == label + 1).sum()) for label in range(9)] for mask in MASKS]
    assert files.labels.tolist() == expected
    again = SegmentedFiles(files.root, files.pairs, files.class_names)
    assert again.labels.tolist() == expected  # as they were kept
    assert files.take(np.array([2, 0])).labels.tolist() == [expected[2], expected[0]]


def test_masks_are_opened_once_for_their_labels(files: SegmentedFiles):
    opened: list[Path] = []

    def counting(path: Path) -> np.ndarray:
        opened.append(path)
        return read_indices(path)

    def look() -> np.ndarray:
        return SegmentedFiles(files.root, files.pairs, files.class_names, counting).labels

    first = look()
    assert len(opened) == 4
    assert np.array_equal(look(), first)
    assert len(opened) == 4
    os.utime(files.root / "y/3.png", (1, 1))
    assert np.array_equal(look(), first)
    assert len(opened) == 8


def test_a_damaged_memory_says_that_it_can_go(files: SegmentedFiles, own_cache: Path):
    assert files.labels.any()
    (kept,) = (own_cache / "mask-pixels").iterdir()
    kept.write_bytes(b"torn")
    with pytest.raises(DatasetError, match="delete this file, it is only a cache"):
        _ = SegmentedFiles(files.root, files.pairs, files.class_names).labels


def test_the_fingerprint_covers_names_and_sizes(files: SegmentedFiles):
    before = files.fingerprint
    assert SegmentedFiles(files.root, files.pairs, files.class_names).fingerprint == before
    assert SegmentedFiles(files.root, files.pairs, names(8)).fingerprint != before
    with (files.root / "y/1.png").open("ab") as file:
        file.write(b"more")
    assert files.take(np.arange(4)).fingerprint != before


def test_a_value_that_is_no_class_names_the_file(files: SegmentedFiles):
    save_mask(files.root / "y/2.png", np.full((6, 5), 10, np.uint8))
    with pytest.raises(DatasetError, match=r"y/2.png: mask: .* value 10; classes are 1 to 9"):
        files.scene(2)
    with pytest.raises(DatasetError, match=r"y/2.png"):
        _ = files.labels


def test_a_mask_of_another_size_names_the_file(files: SegmentedFiles):
    save_mask(files.root / "y/2.png", random_masks(1, 9, (5, 6))[0])
    with pytest.raises(DatasetError, match=r"y/2.png: mask: 5 x 6 .* picture of 6 x 5"):
        files.scene(2)


def test_files_that_are_torn_or_gone_are_named(files: SegmentedFiles):
    (files.root / "y/1.png").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match=r"y/1.png: mask: 7 bytes are no picture"):
        files.mask(1)
    (files.root / "y/1.png").unlink()
    with pytest.raises(DatasetError, match=r"y/1.png: cannot be read: No such file"):
        files.mask(1)
    with pytest.raises(DatasetError, match=r"y/1.png: cannot be read"):
        _ = files.labels
    with pytest.raises(DatasetError, match=r"y/1.png: cannot be read"):
        _ = files.fingerprint
    (files.root / "x/0.png").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match=r"x/0.png: image: 7 bytes"):
        files.scene(0)
