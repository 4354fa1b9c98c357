"""Pictures with several classes belong to several tasks."""

import numpy as np

from fleetledger.simulator.plan.segmentation.overlapped import (
    count_unreached,
    pictures_with,
    without_later,
)

PRESENCE = np.array(
    [
        [1, 0, 0, 1],
        [0, 1, 0, 0],
        [0, 0, 0, 0],
        [0, 1, 1, 0],
        [1, 1, 1, 1],
    ],
    bool,
)


def test_a_picture_belongs_to_every_task_of_which_it_has_a_class():
    assert pictures_with(PRESENCE, (0, 1)).tolist() == [0, 1, 3, 4]
    assert pictures_with(PRESENCE, (2,)).tolist() == [3, 4]
    assert pictures_with(PRESENCE, (3,)).tolist() == [0, 4]


def test_a_picture_of_background_alone_belongs_to_none():
    assert 2 not in pictures_with(PRESENCE, range(4))


def test_a_picture_with_a_later_class_is_none_of_a_disjoint_task():
    assert pictures_with(without_later(PRESENCE, (2, 3)), (0, 1)).tolist() == [1]
    assert pictures_with(without_later(PRESENCE, (3,)), (1, 2)).tolist() == [1, 3]
    assert np.array_equal(without_later(PRESENCE, ()), PRESENCE)


def test_pictures_and_classes_that_nobody_has_are_counted():
    nobody = count_unreached(PRESENCE, (0, 1), [np.array([1]), np.array([1, 3])])
    assert nobody == (2, (0,))
    assert count_unreached(PRESENCE, (2,), [np.array([3]), np.array([4])]) == (0, ())
