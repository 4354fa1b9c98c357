"""Dealing every class evenly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.plan.partitions import PartitionSettings, partition_iid
from tests.simulator.plan.partitions.making import (
    assert_every_sample_once,
    counts,
    make_labels,
    stream,
)

ASKED = PartitionSettings(rule="iid")


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    devices=st.integers(1, 20),
    seed=st.integers(0, 2**32),
)
def test_every_sample_is_dealt_once_and_all_counts_are_even(sizes, devices, seed):
    labels = make_labels(sizes)
    if len(labels) < devices:
        return
    parts = partition_iid(labels, devices, ASKED, stream(seed))
    assert_every_sample_once(parts, len(labels))
    held = counts(labels, parts)
    assert np.ptp(held, axis=0).max() <= 1
    assert np.ptp(held.sum(axis=1)) <= 1


def test_who_gets_one_more_and_which_samples_is_left_to_chance():
    labels = make_labels([7, 7])
    richest, with_first = set(), set()
    for seed in range(60):
        parts = partition_iid(labels, 4, ASKED, stream(seed))
        richest.add(int(np.argmax([len(part) for part in parts])))
        with_first.add(next(k for k, part in enumerate(parts) if 0 in part))
    assert len(richest) > 1
    assert with_first == {0, 1, 2, 3}


def test_fewer_samples_than_devices_are_refused():
    with pytest.raises(PartitionError, match="devices: 9"):
        partition_iid(make_labels([4, 4]), 9, ASKED, stream())
