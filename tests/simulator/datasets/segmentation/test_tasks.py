"""Scenes as samples: one for every task in which a scene shows anything."""

import numpy as np
import pytest
from PIL import Image

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.digits import load_digits
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.datasets.segmentation.samples import digest_of
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes, shown_labels
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.segmentation.making import random_pictures, random_scenes

TASKS = ((3, 0), (1,))


def hand_made() -> SegmentedImages:
    """Three scenes of the classes pear (1), apple (2), fig (3) and date (4)."""
    masks = np.array(
        [
            [[1, 1, 4, 0], [0, 3, 3, 255]],  # more pears than dates, and figs, which have no task
            [[2, 2, 2, 255], [0, 0, 4, 1]],  # as many dates as pears
            [[3, 3, 3, 3], [0, 0, 0, 0]],  # nothing of any task
        ],
        np.uint8,
    )
    names = tuple(map(ClassName, ("pear", "apple", "fig", "date")))
    return SegmentedImages(random_pictures(3, (2, 4)), masks, names)


def test_a_scene_is_a_sample_of_every_task_of_which_it_shows_a_class():
    samples = TaskScenes.of(hand_made(), TASKS)
    assert samples.scene_of.tolist() == [0, 1, 1]
    assert samples.task_of.tolist() == [1, 1, 2]
    assert len(samples) == 3


def test_many_scenes_are_the_samples_that_a_loop_finds():
    scenes = random_scenes(9, classes=20, size=(3, 4))
    tasks = ((4, 2, 9), (7,), (1, 19))
    samples = TaskScenes.of(scenes, tasks)
    expected = [
        (scene, number)
        for number, task in enumerate(tasks, start=1)
        for scene in range(9)
        if any((scenes.masks[scene] == label + 1).any() for label in task)
    ]
    assert list(zip(samples.scene_of.tolist(), samples.task_of.tolist(), strict=True)) == expected
    assert 9 < len(expected) < 27
    for index, (scene, number) in enumerate(expected):
        pixels = {x: int((scenes.masks[scene] == x + 1).sum()) for x in tasks[number - 1]}
        assert pixels[int(samples.labels[index])] == max(pixels.values())
        assert set(samples.shown(index)) == {x for x, many in pixels.items() if many}


def test_a_sample_counts_under_the_class_with_most_pixels_then_by_name():
    samples = TaskScenes.of(hand_made(), TASKS)
    assert samples.labels.tolist() == [0, 3, 1]  # pear, date before pear, apple
    assert [samples.shown(index) for index in range(3)] == [(0, 3), (3, 0), (1,)]


def test_its_mask_shows_the_tasks_classes_alone():
    samples = TaskScenes.of(hand_made(), TASKS)
    assert samples.mask(0).tolist() == [[1, 1, 4, 0], [0, 0, 0, 255]]
    assert samples.mask(1).tolist() == [[0, 0, 0, 255], [0, 0, 4, 1]]
    assert samples.mask(2).tolist() == [[2, 2, 2, 255], [0, 0, 0, 0]]
    for index in range(3):
        assert np.array_equal(samples.scene(index).mask, samples.mask(index))


def test_it_fits_what_is_asked_of_samples():
    scenes = hand_made()
    samples: SampleSet = TaskScenes.of(scenes, TASKS)
    assert samples.class_names == scenes.class_names
    assert samples.owners is None
    picture = samples.picture(2)
    assert isinstance(picture, Image.Image)
    assert picture.mode == "RGB"
    assert np.array_equal(np.asarray(picture), scenes.images[1])


def test_the_digest_is_that_of_picture_and_shown_mask():
    samples = TaskScenes.of(hand_made(), TASKS)
    assert samples.digest(1) == digest_of(samples.scene(1))
    assert samples.digest(1) == samples.digest(1)
    assert len({samples.digest(index) for index in range(3)}) == 3


def test_the_fingerprint_covers_scenes_tasks_and_order():
    samples = TaskScenes.of(hand_made(), TASKS)
    others = [
        TaskScenes.of(hand_made().take(np.array([1, 0, 2])), TASKS),
        TaskScenes.of(hand_made(), ((0, 3), (1,))),
        samples.take(np.array([0, 2, 1])),
    ]
    assert len({samples.fingerprint, *(other.fingerprint for other in others)}) == 4
    assert TaskScenes.of(hand_made(), TASKS).fingerprint == samples.fingerprint


def test_taken_samples_stay_what_they_are():
    samples = TaskScenes.of(hand_made(), TASKS)
    taken = samples.take(np.array([2, 0]))
    assert taken.labels.tolist() == [1, 0]
    assert np.array_equal(taken.mask(0), samples.mask(2))
    assert taken.digest(1) == samples.digest(0)


def test_scenes_of_a_task_are_found_again():
    samples = TaskScenes.of(hand_made(), TASKS)
    assert samples.indices(1, np.array([1, 0])).tolist() == [0, 1]
    assert samples.indices(2, np.array([1])).tolist() == [2]
    with pytest.raises(DatasetError, match="scene 0 shows no class of task 2"):
        samples.indices(2, np.array([0, 1]))


def test_labels_that_samples_show_are_all_of_theirs():
    samples, digits = TaskScenes.of(hand_made(), TASKS), load_digits()
    assert shown_labels(samples, np.array([1])) == {0, 3}
    assert shown_labels(samples, np.array([1, 2])) == {0, 1, 3}
    assert shown_labels(digits, np.array([3, 4])) == set(digits.labels[3:5].tolist())


def test_nothing_is_no_error():
    nothing = TaskScenes.of(hand_made().take(np.array([2])), TASKS)
    assert len(nothing) == 0
    assert nothing.labels.shape == (0,)
    assert len(TaskScenes.of(hand_made(), ())) == 0
