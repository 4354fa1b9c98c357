"""Where samples lie on devices."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from fleetledger.device_agent.samples.sources.scenes import IMAGES, MASKS
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.digits import load_digits
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.paths import image_path, index_of, mask_path, sample_path
from tests.simulator.datasets.segmentation.making import random_scenes


@pytest.mark.parametrize("index", [0, 7, 999_999, 1_281_166])
@pytest.mark.parametrize("name", ["3", "Boeing 707-320", "a-b.c"])
def test_a_path_tells_its_sample(name: str, index: int) -> None:
    assert index_of(image_path(ClassName(name), 12, index)) == index


def test_paths_are_laid_out_by_class_stage_and_index() -> None:
    assert image_path(ClassName("cat"), 3, 42) == "cat/stage-03-000042.png"


def test_a_sample_lies_in_the_folder_of_its_class() -> None:
    digits = load_digits()
    assert sample_path(digits, 2, 7) == image_path(digits.class_names[digits.labels[7]], 2, 7)


def test_pictures_with_masks_lie_in_one_folder_and_their_masks_in_another() -> None:
    scenes = TaskScenes.of(random_scenes(3, 4), ((0, 1), (2,)))
    path = sample_path(scenes, 1, 4)
    assert path == f"{IMAGES}/stage-01-000004.png"
    assert index_of(path) == 4
    assert mask_path(PurePosixPath(path)) == PurePosixPath(f"{MASKS}/stage-01-000004.png")
