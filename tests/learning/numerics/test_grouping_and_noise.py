"""Groups and noise are functions of a seed: repeated exactly, and otherwise like chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.learning.numerics.grouping import split_per_class, split_shuffled
from fleetledger.learning.numerics.noise import normal_noise


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(1, 5),
    st.binary(max_size=4),
)
def test_no_group_holds_fewer_of_a_class_than_the_minimum_unless_the_class_does(
    labels, groups, minimum, seed
):
    classes = np.array(labels)
    split = split_per_class(classes, groups, minimum, seed)
    assert split.min() >= 0
    assert split.max() < groups
    for index in set(labels):
        held = np.bincount(split[classes == index])
        assert len(held) == max(1, min(groups, labels.count(index) // minimum))
        assert held.min() >= min(minimum, labels.count(index))
        assert held.max() - held.min() <= 1


@given(st.integers(1, 60), st.integers(1, 20), st.binary(max_size=4))
def test_shuffled_chunks_are_equal_and_the_last_takes_the_rest(samples, groups, seed):
    sizes = np.bincount(split_shuffled(samples, groups, seed))
    assert sizes.sum() == samples
    assert len(sizes) == groups
    assert set(sizes[:-1]) <= {samples // groups}
    assert sizes[-1] >= sizes[0]


def test_fewer_samples_than_chunks_all_lie_in_the_last_as_in_the_published_program():
    assert np.bincount(split_shuffled(3, 5, b"a")).tolist() == [0, 0, 0, 0, 3]


def test_the_seed_decides_and_nothing_else():
    classes = np.arange(200) % 3
    one = split_per_class(classes, 5, 2, b"device/1")
    assert np.array_equal(one, split_per_class(classes, 5, 2, b"device/1"))
    assert not np.array_equal(one, split_per_class(classes, 5, 2, b"device/2"))
    whole = split_shuffled(200, 5, b"device/1")
    assert np.array_equal(whole, split_shuffled(200, 5, b"device/1"))
    assert not np.array_equal(whole, split_shuffled(200, 5, b"device/2"))


def test_groups_are_the_same_on_every_machine():
    classes = np.array([0, 0, 1, 0, 1, 0, 0, 1])
    assert split_per_class(classes, 3, 2, b"a").tolist() == [0, 1, 0, 0, 0, 1, 0, 0]
    assert split_shuffled(8, 3, b"a").tolist() == [2, 1, 1, 2, 2, 2, 0, 0]


def test_noise_is_normal_and_independent():
    drawn = normal_noise(b"secret", 100_000)
    assert abs(drawn.mean()) < 0.015
    assert drawn.std() == pytest.approx(1, abs=0.01)
    assert (drawn**4).mean() == pytest.approx(3, abs=0.15)
    assert np.mean(np.abs(drawn) > 1.96) == pytest.approx(0.05, abs=0.004)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.015
    assert len(np.unique(drawn)) == len(drawn)


def test_noise_is_repeated_from_the_same_secret_alone():
    assert np.array_equal(normal_noise(b"a", 5), normal_noise(b"a", 40_000)[:5])
    assert not np.isin(normal_noise(b"a", 500), normal_noise(b"b", 500)).any()
    assert normal_noise(b"a", 0).shape == (0,)


def test_samples_that_belong_together_fall_into_one_group():
    classes = np.repeat([0, 1], 20)
    together = np.where(np.arange(40) % 20 < 12, np.arange(40) % 20 // 3, -1)
    group = split_per_class(classes, 4, 2, b"seed", together)
    for label in (0, 1):
        for block in range(4):
            assert len(set(group[(classes == label) & (together == block)])) == 1
        counts = np.bincount(group[classes == label], minlength=4)
        assert counts.min() >= 2
        assert set(group[(classes == label) & (together < 0)]) == {0, 1, 2, 3}
