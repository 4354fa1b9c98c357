"""Devices of a single class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.plan.partitions import PartitionSettings, partition_by_one_class
from tests.simulator.plan.partitions.making import (
    assert_every_sample_once,
    counts,
    make_labels,
    stream,
)

ASKED = PartitionSettings(rule="one-class")


@given(
    sizes=st.lists(st.integers(20, 60), min_size=1, max_size=6),
    more=st.integers(0, 14),
    seed=st.integers(0, 2**32),
)
def test_every_sample_is_dealt_once_and_every_device_has_one_class(sizes, more, seed):
    labels, devices = make_labels(sizes), len(sizes) + more
    parts = partition_by_one_class(labels, devices, ASKED, stream(seed))
    assert_every_sample_once(parts, len(labels))
    held = counts(labels, parts)
    assert ((held > 0).sum(axis=1) == 1).all()
    assert np.ptp((held > 0).sum(axis=0)) <= 1
    for numbers in held.T:
        assert np.ptp(numbers[numbers > 0]) <= 1


def test_which_device_has_which_class_is_left_to_chance():
    labels = make_labels([9, 9, 9])
    first = [
        int(labels[partition_by_one_class(labels, 3, ASKED, stream(seed))[0][0]])
        for seed in range(40)
    ]
    assert set(first) == {0, 1, 2}


def test_fewer_devices_than_classes_are_refused():
    with pytest.raises(PartitionError, match="at least 3 devices"):
        partition_by_one_class(make_labels([9, 9, 9]), 2, ASKED, stream())


def test_a_class_with_fewer_samples_than_devices_is_refused():
    with pytest.raises(PartitionError, match="class of 2 samples falls to 3 devices"):
        partition_by_one_class(make_labels([2, 9]), 6, ASKED, stream())
