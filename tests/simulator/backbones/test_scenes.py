"""How a network that segments sees the pictures of a data set."""

import numpy as np
import pytest

from fleetledger.simulator.backbones.scenes import (
    CENTRE,
    IMAGENET_DEVIATION,
    IMAGENET_MEAN,
    SPREAD,
    scene_preprocessing,
)
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.errors import BackboneError
from tests.simulator.datasets.segmentation.making import random_scenes


def split(train=(16, 12), test=(16, 12)) -> Split[TaskScenes]:
    parts = [TaskScenes.of(random_scenes(3, 2, size), ((0, 1),)) for size in (train, test)]
    return Split(*parts)


def test_pictures_of_one_size_are_seen_as_they_are():
    seen = scene_preprocessing(split(), None, pretrained=False)
    assert (seen.mode, seen.size, seen.interpolation) == ("RGB", (16, 12), "nearest")
    assert (seen.mean, seen.deviation) == (CENTRE, SPREAD)


def test_pictures_may_be_stretched_to_a_height_and_a_width():
    seen = scene_preprocessing(split(), (20, 30), pretrained=False)
    assert (seen.size, seen.interpolation) == ((20, 30), "bilinear")


def test_a_trunk_that_saw_imagenet_sees_colours_as_there():
    seen = scene_preprocessing(split(), None, pretrained=True)
    assert (seen.mean, seen.deviation) == (IMAGENET_MEAN, IMAGENET_DEVIATION)


def test_pictures_of_several_sizes_need_one_to_be_brought_to():
    several = split(test=(12, 16))
    with pytest.raises(BackboneError, match=r"backbone.size: missing; .*\(12, 16\), \(16, 12\)"):
        scene_preprocessing(several, None, pretrained=False)
    assert scene_preprocessing(several, (8, 8), pretrained=False).size == (8, 8)


def test_scenes_that_show_nothing_of_the_tasks_are_looked_at_too():
    blank = SegmentedImages(
        np.zeros((1, 9, 9, 3), np.uint8),
        np.zeros((1, 9, 9), np.uint8),
        random_scenes(1, 2).class_names,
    )
    other = Split(TaskScenes.of(blank, ((0,),)), split().test)
    with pytest.raises(BackboneError, match=r"\(9, 9\)"):
        scene_preprocessing(other, None, pretrained=False)
