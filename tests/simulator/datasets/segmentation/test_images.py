"""Pictures with masks in memory."""

import numpy as np
import pytest

from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.segmentation.making import (
    names,
    random_masks,
    random_pictures,
    random_scenes,
)


def test_presence_is_what_a_loop_says():
    scenes = random_scenes(8, classes=9, size=(3, 4))
    for index in range(8):
        for label in range(9):
            assert (scenes.labels[index, label] > 0) == (label + 1 in scenes.masks[index])
            assert scenes.labels[index, label] == (scenes.masks[index] == label + 1).sum()
    assert not (scenes.labels > 0).all()


def test_taken_pictures_keep_their_masks():
    scenes = random_scenes(5, classes=2)
    taken = scenes.take(np.array([3, 1]))
    assert len(taken) == 2
    for place, index in enumerate((3, 1)):
        assert np.array_equal(taken.scene(place).picture, scenes.images[index])
        assert np.array_equal(taken.mask(place), scenes.masks[index])


def test_the_fingerprint_covers_pictures_masks_order_and_names():
    scenes = random_scenes(4, classes=2)
    changed = scenes.images.copy()
    changed[0, 0, 0, 0] ^= 1
    masked = scenes.masks.copy()
    masked[3, 5, 4] = (masked[3, 5, 4] + 1) % 3
    others = [
        SegmentedImages(changed, scenes.masks, scenes.class_names),
        SegmentedImages(scenes.images, masked, scenes.class_names),
        SegmentedImages(scenes.images, scenes.masks, names(3)),
        scenes.take(np.array([1, 0, 2, 3])),
    ]
    found = {scenes.fingerprint, *(other.fingerprint for other in others)}
    assert len(found) == 5
    assert random_scenes(4, classes=2).fingerprint == scenes.fingerprint


def test_nothing_is_no_error():
    nothing = random_scenes(3, classes=2).take(np.empty(0, np.int64))
    assert nothing.labels.shape == (0, 2)


@pytest.mark.parametrize(
    ("images", "masks", "classes", "told"),
    [
        (random_pictures(2).astype(float), random_masks(2, 2), 2, "images: float64"),
        (random_pictures(2)[..., 0], random_masks(2, 2), 2, r"images: uint8 of shape \(2, 6, 5\)"),
        (random_pictures(2), random_masks(3, 2), 2, r"give uint8 of shape \(2, 6, 5\)"),
        (random_pictures(2), random_masks(2, 2, (5, 6)), 2, r"masks: uint8 of shape \(2, 5, 6\)"),
        (random_pictures(2), random_masks(2, 5), 2, "masks: number 0: .* value 3, 4, 5; classes"),
        (random_pictures(2), random_masks(2, 2), 0, "class_names: 0"),
    ],
)
def test_what_does_not_fit_is_told(images, masks, classes: int, told: str):
    with pytest.raises(DatasetError, match=told):
        SegmentedImages(images, masks, names(classes))


def test_a_name_that_comes_twice_is_refused():
    with pytest.raises(DatasetError, match="2, of which 1 differ"):
        SegmentedImages(random_pictures(1), random_masks(1, 2), names(1) * 2)
