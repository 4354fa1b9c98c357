"""FedNCM: from features to a head, against class means of the pooled samples in float64."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedncm.coordinator import COORDINATOR, FedncmAggregate
from fleetledger.methods.fedncm.device import DEVICE
from fleetledger.methods.statistics.linear_head import LinearHead
from fleetledger.methods.statistics.part import PartContext
from tests.methods.samples import NAMES, WIDTH, Samples, cosine_of, make_samples, shares

TOLD = COORDINATOR.assign({"min_samples_per_class": 1}, WIDTH)


def part_of(samples: Samples) -> FedncmAggregate:
    payload = DEVICE.finish(TOLD, samples.features, samples.labels).payload
    return FedncmAggregate.of(TOLD, COORDINATOR.check(TOLD, payload), stage=1)


def summed(parts: list[FedncmAggregate]) -> FedncmAggregate:
    total = FedncmAggregate.empty(TOLD)
    for part in parts:
        total = total + part
    return total


def solved(aggregate: FedncmAggregate) -> LinearHead:
    return COORDINATOR.solve(TOLD, aggregate, NAMES)


def pooled_means(samples: Samples) -> np.ndarray:
    """The mean feature of each class, (C, M), one sample after the other."""
    sums, counts = np.zeros((len(NAMES), WIDTH)), np.zeros(len(NAMES))
    for feature, label in zip(samples.features.astype(np.float64), samples.labels, strict=True):
        sums[NAMES.index(label)] += feature
        counts[NAMES.index(label)] += 1
    return sums / counts[:, None]


def test_rows_are_the_pooled_means_at_one_length():
    samples = make_samples(1)
    head = solved(summed([part_of(samples[rows]) for rows in shares(samples, 7, 0)]))
    assert head.weights.dtype == np.float32
    assert np.allclose(cosine_of(head.weights), cosine_of(pooled_means(samples)), atol=1e-6)
    lengths = np.linalg.norm(head.weights, axis=1)
    assert np.allclose(lengths, lengths[0])


def test_answers_are_the_means_of_the_nearest_direction():
    samples, new = make_samples(2), make_samples(3)
    head = solved(part_of(samples))
    cosines = new.features.astype(np.float64) @ cosine_of(pooled_means(samples)).T
    assert head.predict(new.features) == [NAMES[i] for i in cosines.argmax(axis=1)]
    right = [a == b for a, b in zip(head.predict(new.features), new.labels, strict=True)]
    assert np.mean(right) > 0.9


def test_scores_of_the_means_are_cosines_about_one():
    samples = make_samples(4)
    own = np.diag(solved(part_of(samples)).scores(pooled_means(samples)))
    assert 0.5 < own.min() < own.max() < 2


@pytest.mark.parametrize("devices", [1, 5, 30])
def test_no_order_and_no_division_changes_the_digest(devices: int):
    samples = make_samples(5)
    whole = part_of(samples).digest
    for seed in range(3):
        parts = [part_of(samples[rows]) for rows in shares(samples, devices, seed)]
        assert summed(parts).digest == whole
        assert summed(parts[::-1]).digest == whole


def test_taking_a_device_out_leaves_the_fleet_that_never_had_it():
    samples = make_samples(6)
    parts = [part_of(samples[rows]) for rows in shares(samples, 6, 1)]
    without = summed(parts) - parts[2]
    never = summed([*parts[:2], *parts[3:]])
    assert without.digest == never.digest
    assert np.array_equal(solved(without).weights, solved(never).weights)
    with pytest.raises(MethodError, match="was not added"):
        parts[0] - summed(parts)


def test_classes_of_later_stages_leave_the_direction_of_earlier_rows_alone():
    samples = make_samples(7)
    early = np.array([label in NAMES[:2] for label in samples.labels])
    first = part_of(samples[np.flatnonzero(early)])
    both = solved(first + part_of(samples[np.flatnonzero(~early)]))
    assert not solved(first).weights[2:].any()
    assert np.allclose(cosine_of(both.weights[:2]), cosine_of(solved(first).weights[:2]), atol=1e-6)


def test_classes_of_one_name_are_merged_as_if_they_had_always_had_it():
    samples = make_samples(8)
    merged = part_of(samples).renamed({NAMES[3]: NAMES[0]})
    renamed = [NAMES[0] if label == NAMES[3] else label for label in samples.labels]
    assert merged.digest == part_of(Samples(samples.features, renamed)).digest


def test_without_data_the_head_is_zero_and_a_class_with_data_needs_an_index():
    assert not solved(FedncmAggregate.empty(TOLD)).weights.any()
    with pytest.raises(MethodError, match="'fox' has data but no index"):
        COORDINATOR.solve(TOLD, part_of(make_samples(9)), NAMES[:3])


def test_features_of_zeros_give_a_row_of_zeros():
    zeros = np.zeros((3, WIDTH), np.float32)
    assert not solved(part_of(Samples(zeros, [NAMES[0]] * 3))).weights.any()


def test_equal_samples_give_equal_payloads_and_a_form_is_refused():
    samples = make_samples(10)
    one, two = (DEVICE.finish(TOLD, samples.features, samples.labels) for _ in range(2))
    assert one == two
    assert one.samples == dict.fromkeys(NAMES, 40)
    with pytest.raises(MethodError, match="form: 'compact'"):
        DEVICE.finish(TOLD, samples.features, samples.labels, PartContext(form="compact"))


def test_by_default_a_class_with_a_single_sample_waits_on_the_device():
    told = COORDINATOR.assign({}, WIDTH)
    with pytest.raises(MethodError, match="hold them back until there are 2"):
        DEVICE.finish(told, np.ones((1, WIDTH), np.float32), ["cat"])
