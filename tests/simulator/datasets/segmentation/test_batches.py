"""Pictures of any size as arrays of one size."""

from pathlib import Path

import numpy as np
import pytest

from device_agent.sources.scenes import LabelledScene
from simulator.datasets.segmentation.batches import letterbox, stack_scenes
from simulator.datasets.segmentation.files import Pair, SegmentedFiles
from simulator.errors import DatasetError
from tests.simulator.datasets.segmentation.making import (
    names,
    random_masks,
    random_pictures,
    random_scenes,
    save_mask,
    save_picture,
)


def scene(height: int, width: int) -> LabelledScene:
    picture = np.zeros((3, height, width), np.uint8)
    picture[:, :, width // 2 :] = np.array([200, 100, 50])[:, None, None]
    mask = np.ones((height, width), np.uint8)
    mask[:, width // 2 :] = 2
    return LabelledScene(picture, mask)


def test_pictures_of_one_size_are_stacked_as_they_are():
    scenes = random_scenes(5, classes=2)
    stacked = stack_scenes(scenes, [4, 0])
    assert np.array_equal(stacked.images, scenes.images[[4, 0]])
    assert np.array_equal(stacked.masks, scenes.masks[[4, 0]])
    assert stacked.class_names == scenes.class_names


def test_files_of_several_sizes_need_a_size(tmp_path: Path):
    for number, size in enumerate(((6, 5), (4, 8))):
        save_picture(tmp_path / f"{number}.png", random_pictures(1, size)[0])
        save_mask(tmp_path / f"m{number}.png", random_masks(1, 2, size)[0])
    files = SegmentedFiles(tmp_path, (Pair("0.png", "m0.png"), Pair("1.png", "m1.png")), names(2))
    with pytest.raises(DatasetError, match=r"pictures 0 and 1 are of \(6, 5\) and \(4, 8\)"):
        stack_scenes(files, [0, 1])
    stacked = stack_scenes(files, [0, 1], (12, 10))
    assert stacked.images.shape == (2, 3, 12, 10)
    assert stacked.masks.shape == (2, 12, 10)


@pytest.mark.parametrize(
    ("height", "width", "inner"), [(20, 40, (10, 20)), (40, 20, (20, 10)), (5, 10, (10, 20))]
)
def test_the_whole_picture_is_at_the_top_left(height: int, width: int, inner: tuple[int, int]):
    boxed = letterbox(scene(height, width), (20, 20))
    half = inner[1] // 2
    assert (boxed.mask[: inner[0], :half] == 1).all()
    assert (boxed.mask[: inner[0], half : inner[1]] == 2).all()
    outside = np.ones((20, 20), bool)
    outside[: inner[0], : inner[1]] = False
    assert (boxed.mask[outside] == 255).all()
    assert (boxed.picture[:, outside] == 0).all()
    assert boxed.picture[:, 0, 0].tolist() == [0, 0, 0]
    assert boxed.picture[:, inner[0] - 1, inner[1] - 1].tolist() == [200, 100, 50]


def test_no_value_is_mixed_from_two():
    mask = random_masks(1, 9, (37, 53))[0]
    boxed = letterbox(LabelledScene(random_pictures(1, (37, 53))[0], mask), (16, 16))
    assert set(np.unique(boxed.mask)) <= set(np.unique(mask))


def test_the_right_size_is_left_alone():
    given = scene(8, 8)
    assert letterbox(given, (8, 8)) is given


def test_a_very_narrow_picture_keeps_a_pixel():
    boxed = letterbox(scene(200, 2), (20, 20))
    assert (boxed.mask[:, 0] != 255).all()
    assert (boxed.mask[:, 1:] == 255).all()
