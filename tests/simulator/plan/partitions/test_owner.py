"""Devices that are natural owners."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.simulator.plan.partitions import partition_by_owner
from tests.simulator.plan.partitions.making import assert_every_sample_once


@given(owners=st.lists(st.integers(0, 6), min_size=1, max_size=80))
def test_every_sample_goes_to_its_owner(owners):
    owned = np.array(owners, np.int64)
    devices = sorted(set(owners))
    parts = partition_by_owner(owned, devices)
    assert_every_sample_once(parts, len(owned))
    for owner, part in zip(devices, parts, strict=True):
        assert (owned[part] == owner).all()


def test_samples_of_owners_without_a_device_are_left_out():
    parts = partition_by_owner(np.array([4, 2, 4, 9]), [2, 4, 5])
    assert [part.tolist() for part in parts] == [[1], [0, 2], []]
