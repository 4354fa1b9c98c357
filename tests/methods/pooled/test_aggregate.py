"""What the coordinator holds: free of order and division, and undone bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.pooled.aggregate import PooledAggregate
from fleetledger.methods.pooled.coordinator import COORDINATOR
from fleetledger.methods.pooled.messages import PooledAssignment
from tests.methods.pooled.making import (
    FEATURES,
    MOMENTS,
    dealt_by_four,
    part_of,
    parts_of,
    payload_of,
    solved,
    summed,
)
from tests.methods.samples import NAMES, WIDTH, Samples, make_samples

BOTH = pytest.mark.parametrize("told", [FEATURES, MOMENTS], ids=["features", "moments"])


@BOTH
def test_the_order_of_files_on_a_device_does_not_show(told: PooledAssignment):
    samples = make_samples(1)
    order = np.random.default_rng(0).permutation(len(samples.labels))
    assert payload_of(told, samples[order]) == payload_of(told, samples)


@BOTH
def test_every_order_grouping_and_division_gives_one_digest_and_one_head(told: PooledAssignment):
    samples = make_samples(2)
    parts = parts_of(told, samples, dealt_by_four(samples, 9, 2))
    whole = summed(told, parts)
    others = [
        summed(told, parts[::-1]),
        summed(told, parts[:4]) + summed(told, parts[4:]),
        part_of(told, samples),
        summed(told, parts_of(told, samples, dealt_by_four(samples, 3, 5))),
    ]
    for other in others:
        assert other.samples == whole.samples == dict.fromkeys(NAMES, 40)
        assert other.digest == whole.digest
        assert np.array_equal(solved(told, other).weights, solved(told, whole).weights)


@BOTH
def test_in_which_stage_a_contribution_was_made_does_not_matter(told: PooledAssignment):
    samples = make_samples(3)
    one, four = (part_of(told, samples, stage).digest for stage in (1, 4))
    assert one == four


@BOTH
def test_a_withdrawn_part_leaves_the_fleet_that_never_had_it(told: PooledAssignment):
    samples = make_samples(4)
    parts = parts_of(told, samples, dealt_by_four(samples, 6, 1))
    without = summed(told, parts) - parts[2]
    never = summed(told, [*parts[:2], *parts[3:]])
    assert without.digest == never.digest
    assert np.array_equal(solved(told, without).weights, solved(told, never).weights)
    nothing = summed(told, parts) - summed(told, parts)
    assert nothing.samples == {}
    assert nothing.digest == PooledAggregate.empty(told).digest


@BOTH
def test_a_replaced_part_is_as_if_the_new_one_had_come_first(told: PooledAssignment):
    samples, corrected = make_samples(5), make_samples(6, 40)
    old, *others = parts_of(told, samples, dealt_by_four(samples, 4, 1))
    new = part_of(told, corrected)
    replaced = summed(told, [old, *others]) - old + new
    assert replaced.digest == summed(told, [*others, new]).digest


@BOTH
def test_what_was_not_added_cannot_be_taken_out(told: PooledAssignment):
    one, two = part_of(told, make_samples(7)), part_of(told, make_samples(8, 168))
    with pytest.raises(MethodError, match="was not added"):
        one - two


@BOTH
def test_equal_data_of_two_devices_count_twice_and_leave_one_by_one(told: PooledAssignment):
    part = part_of(told, make_samples(9))
    twice = part + part
    assert twice.samples == dict.fromkeys(NAMES, 80)
    assert twice.digest != part.digest
    assert (twice - part).digest == part.digest
    with pytest.raises(MethodError, match="was not added"):
        part - twice


@BOTH
def test_classes_of_one_name_are_one_class(told: PooledAssignment):
    samples = make_samples(10)
    merged = part_of(told, samples).renamed({NAMES[3]: NAMES[0]})
    direct = Samples(samples.features, [NAMES[0] if n == NAMES[3] else n for n in samples.labels])
    assert merged.samples == {"cat": 80, "dog": 40, "eel": 40}
    assert merged.digest == part_of(told, direct).digest


@BOTH
def test_another_feature_or_another_class_is_another_digest(told: PooledAssignment):
    samples = make_samples(11)
    digest = part_of(told, samples).digest
    features = samples.features.copy()
    features[3, 5] += 1 if features[3, 5] < 127 else -1
    assert part_of(told, Samples(features, samples.labels)).digest != digest
    labels = [NAMES[1] if i == 0 else name for i, name in enumerate(samples.labels)]
    if labels == samples.labels:
        labels[0] = NAMES[2]
    assert part_of(told, Samples(samples.features, labels)).digest != digest


def test_features_of_other_widths_belong_to_other_lineages():
    other = PooledAggregate.empty(COORDINATOR.assign({}, WIDTH + 1))
    with pytest.raises(MethodError, match=r"12 and of 13 numbers .* different lineages"):
        part_of(FEATURES, make_samples(12)) + other
