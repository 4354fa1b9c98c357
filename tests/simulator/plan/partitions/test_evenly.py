"""Dealing samples without looking at their classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.plan.partitions import partition_evenly
from tests.simulator.plan.partitions.making import assert_every_sample_once, stream


@given(samples=st.integers(1, 300), devices=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_every_sample_is_dealt_once_and_sizes_differ_by_at_most_one(samples, devices, seed):
    if samples < devices:
        return
    parts = partition_evenly(samples, devices, stream(seed))
    assert_every_sample_once(parts, samples)
    assert np.ptp([len(part) for part in parts]) <= 1


@pytest.mark.parametrize(("samples", "devices"), [(3, 4), (0, 1), (5, 0)])
def test_fewer_samples_than_devices_are_refused(samples: int, devices: int):
    with pytest.raises(PartitionError, match=f"devices: {devices}"):
        partition_evenly(samples, devices, stream())
