"""What masks show in a task."""

import numpy as np

from fleetledger.simulator.datasets.segmentation.masks import show_classes
from tests.simulator.datasets.segmentation.making import random_masks


def test_only_the_shown_classes_are_seen_and_255_stays():
    masks = random_masks(7, classes=6)
    shown = show_classes(masks, (1, 4))
    for before, after in zip(masks.ravel(), shown.ravel(), strict=True):
        assert after == (before if before in (2, 5, 255) else 0)
    assert shown.dtype == np.uint8
    assert {0, 2, 5, 255} == set(np.unique(shown))


def test_showing_all_changes_nothing_and_showing_none_leaves_background():
    masks = random_masks(3, classes=4)
    assert np.array_equal(show_classes(masks, range(4)), masks)
    assert set(np.unique(show_classes(masks, ()))) == {0, 255}


def test_the_last_possible_class_is_not_taken_for_255():
    masks = np.array([[254, 255, 1]], np.uint8)
    assert show_classes(masks, [253]).tolist() == [[254, 255, 0]]


def test_the_mask_that_was_given_stays_as_it_was():
    masks = random_masks(2, classes=3)
    before = masks.copy()
    show_classes(masks, [0])
    assert np.array_equal(masks, before)
