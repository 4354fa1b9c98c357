"""Labels of one class a sample, and of several."""

import numpy as np

from fleetledger.simulator.datasets.labels import (
    count_samples,
    first_of_every_class,
    samples_of,
    showing,
    without_samples_of,
)

ONE = np.array([4, 0, 4, 0, 4, 2])
SEVERAL = np.array(
    [
        [7, 0, 0, 1],
        [0, 2, 0, 0],
        [0, 0, 0, 0],
        [0, 1, 9, 0],
        [1, 1, 3, 1],
    ]
)


def test_a_sample_is_found_by_every_class_that_it_shows():
    assert samples_of(SEVERAL, (0, 1)).tolist() == [0, 1, 3, 4]
    assert samples_of(SEVERAL, (2,)).tolist() == [3, 4]
    assert samples_of(SEVERAL, (3,)).tolist() == [0, 4]
    assert samples_of(ONE, (0, 2)).tolist() == [1, 3, 5]
    assert showing(ONE, (4,)).tolist() == [True, False, True, False, True, False]


def test_a_sample_that_shows_nothing_is_found_by_no_class():
    assert 2 not in samples_of(SEVERAL, range(4))
    assert samples_of(ONE, ()).tolist() == samples_of(SEVERAL, ()).tolist() == []


def test_samples_of_every_class_are_counted():
    assert count_samples(SEVERAL, 4).tolist() == [2, 3, 2, 2]
    assert count_samples(ONE, 6).tolist() == [2, 0, 1, 0, 3, 0]


def test_the_first_of_every_class_are_chosen_in_the_order_of_the_data_set():
    assert first_of_every_class(ONE, 2).tolist() == [0, 1, 2, 3, 5]
    assert first_of_every_class(ONE, 9).tolist() == [0, 1, 2, 3, 4, 5]
    assert first_of_every_class(np.empty(0, np.int64), 2).tolist() == []
    assert first_of_every_class(SEVERAL, 1).tolist() == [0, 1, 3]
    assert first_of_every_class(SEVERAL, 9).tolist() == [0, 1, 3, 4]


def test_samples_of_a_class_are_left_out_whatever_else_they_show():
    assert samples_of(without_samples_of(SEVERAL, (2, 3)), (0, 1)).tolist() == [1]
    assert samples_of(without_samples_of(SEVERAL, (3,)), (1, 2)).tolist() == [1, 3]
    assert np.array_equal(without_samples_of(SEVERAL, ()), SEVERAL)
