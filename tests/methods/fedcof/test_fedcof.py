"""FedCOF: from features to a head, against the paper's formulas in float64, one sum at a time."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.fedcof.aggregate import FedcofAggregate
from fleetledger.methods.fedcof.coordinator import COORDINATOR
from fleetledger.methods.fedcof.device import DEVICE
from fleetledger.methods.statistics.linear_head import LinearHead
from fleetledger.methods.statistics.part import PartContext
from tests.methods.samples import NAMES, WIDTH, Samples, cosine_of, make_samples, shares

TOLD = COORDINATOR.assign({"min_samples_per_class": 1}, WIDTH)


def part_of(samples: Samples, stage: int = 1) -> FedcofAggregate:
    payload = DEVICE.finish(TOLD, samples.features, samples.labels).payload
    return FedcofAggregate.of(TOLD, COORDINATOR.check(TOLD, payload), stage)


def parts_of(samples: Samples, rows: list[np.ndarray]) -> list[FedcofAggregate]:
    return [part_of(samples[some]) for some in rows]


def summed(parts: list[FedcofAggregate]) -> FedcofAggregate:
    total = FedcofAggregate.empty(TOLD)
    for part in parts:
        total = total + part
    return total


def solved(aggregate: FedcofAggregate) -> LinearHead:
    return COORDINATOR.solve(TOLD, aggregate, NAMES)


def slow_head(samples: Samples, devices: list[np.ndarray], gamma: float) -> np.ndarray:
    """The paper's classifier from the devices' own rows, on features of which the largest is 1."""
    H = samples.features.astype(np.float64) / 127
    labels = np.array(samples.labels)
    gram = len(H) * np.outer(H.mean(axis=0), H.mean(axis=0))
    sums = np.zeros((len(NAMES), WIDTH))
    for index, name in enumerate(NAMES):
        own = H[labels == name]
        sums[index] = own.sum(axis=0)
        held = [H[rows][labels[rows] == name] for rows in devices if (labels[rows] == name).any()]
        scatter = np.zeros((WIDTH, WIDTH))
        for group in held:
            away = group.mean(axis=0) - own.mean(axis=0)
            scatter += len(group) * np.outer(away, away)
        covariance = scatter / (len(held) - 1) if len(held) > 1 else scatter
        gram += (len(own) - 1) * (covariance + gamma * np.eye(WIDTH))
    return np.linalg.solve(gram, sums.T).T


@pytest.mark.parametrize("gamma", [0.001, 0.05, 1.0])
@pytest.mark.parametrize("devices", [2, 7, 40])
def test_the_head_is_the_papers_with_rows_of_one_length(devices: int, gamma: float):
    samples = make_samples(1)
    rows = shares(samples, devices, 0)
    told = COORDINATOR.assign({"shrinkage": gamma}, WIDTH)
    head = COORDINATOR.solve(told, summed(parts_of(samples, rows)), NAMES)
    assert head.weights.dtype == np.float32
    assert np.allclose(
        cosine_of(head.weights), cosine_of(slow_head(samples, rows, gamma)), atol=1e-5
    )
    lengths = np.linalg.norm(head.weights, axis=1)
    assert np.allclose(lengths, lengths[0])


def test_the_length_of_rows_is_that_of_class_means_by_their_samples() -> None:
    """Scores are cosines for a sample of the usual length: of n_c |m_c|^2 over all samples."""
    every = make_samples(1)
    labels = np.array(every.labels)
    few = np.concatenate([np.flatnonzero(labels == c)[: 4 + 12 * n] for n, c in enumerate(NAMES)])
    samples = every[few]
    head, labels = solved(summed(parts_of(samples, shares(samples, 5, 0)))), labels[few]
    means = [samples.features[labels == c].mean(axis=0) for c in labels]
    usual = np.sqrt(np.mean([float(mean @ mean) for mean in means]))
    assert np.linalg.norm(head.weights, axis=1) == pytest.approx(1 / usual, rel=1e-5)


def test_answers_are_those_of_the_papers_classifier():
    samples, new = make_samples(2), make_samples(3)
    rows = shares(samples, 9, 1)
    head = solved(summed(parts_of(samples, rows)))
    scores = new.features.astype(np.float64) @ cosine_of(slow_head(samples, rows, 0.05)).T
    assert head.predict(new.features) == [NAMES[i] for i in scores.argmax(axis=1)]
    right = [a == b for a, b in zip(head.predict(new.features), new.labels, strict=True)]
    assert np.mean(right) > 0.9


def test_where_every_sample_is_a_device_the_covariances_are_those_of_the_samples():
    samples = make_samples(4)
    alone = summed(parts_of(samples, [np.array([row]) for row in range(len(samples.labels))]))
    H, labels = samples.features.astype(np.float64) / 127, np.array(samples.labels)
    gram = len(H) * np.outer(H.mean(axis=0), H.mean(axis=0))
    for name in NAMES:
        own = H[labels == name]
        gram += (len(own) - 1) * (np.cov(own.T) + 0.05 * np.eye(WIDTH))
    expected = np.linalg.solve(gram, H.T @ samples.one_hot).T
    assert np.allclose(cosine_of(solved(alone).weights), cosine_of(expected), atol=1e-5)


def test_every_order_and_grouping_of_contributions_gives_the_same_head():
    samples = make_samples(5)
    parts = parts_of(samples, shares(samples, 9, 2))
    whole = summed(parts)
    for other in (summed(parts[::-1]), summed(parts[:4]) + summed(parts[4:])):
        assert other.digest == whole.digest
        assert np.array_equal(solved(other).weights, solved(whole).weights)


def test_in_which_stage_a_contribution_was_made_does_not_matter():
    samples = make_samples(6)
    assert part_of(samples, 1).digest == part_of(samples, 4).digest


def test_another_division_of_the_samples_is_another_estimate_of_the_same_sums():
    samples = make_samples(7)
    one, two = (summed(parts_of(samples, shares(samples, 9, seed))) for seed in (0, 1))
    assert one.samples == two.samples
    assert one.digest != two.digest


def test_taking_a_device_out_leaves_the_fleet_that_never_had_it():
    samples = make_samples(8)
    parts = parts_of(samples, shares(samples, 6, 1))
    without = summed(parts) - parts[2]
    never = summed([*parts[:2], *parts[3:]])
    assert without.digest == never.digest
    assert np.array_equal(solved(without).weights, solved(never).weights)
    assert (without - never).samples == {}
    with pytest.raises(MethodError, match="was not added"):
        parts[0] - parts[1]


def test_equal_contributions_of_two_devices_count_twice_and_leave_one_by_one():
    part = part_of(make_samples(9))
    twice = part + part
    assert twice.samples == dict.fromkeys(NAMES, 80)
    assert twice.groups(NAMES[0]).holders == 2
    assert twice.digest != part.digest
    assert (twice - part).digest == part.digest
    with pytest.raises(MethodError, match="was not added"):
        part - twice


def test_rows_of_classes_of_one_name_are_rows_of_one_class():
    samples = make_samples(10)
    parts = parts_of(samples, shares(samples, 5, 0))
    merged = summed(parts).renamed({NAMES[3]: NAMES[0]})
    assert merged.samples == {"cat": 80, "dog": 40, "eel": 40}
    separate = sum(summed(parts).groups(NAMES[index]).holders for index in (0, 3))
    assert merged.groups(NAMES[0]).holders == separate
    taken = merged - parts[0].renamed({NAMES[3]: NAMES[0]})
    later = summed(parts[1:]).renamed({NAMES[3]: NAMES[0]})
    assert taken.digest == later.digest


def test_a_class_of_one_contribution_is_named_in_a_remark():
    samples = make_samples(11)
    rows = [np.flatnonzero(np.array(samples.labels) == name) for name in NAMES]
    halves = [half for some in rows[:3] for half in np.array_split(some, 2)]
    head = solved(summed(parts_of(samples, [*halves, rows[3]])))
    assert head.remarks == (
        "class 'fox' has one contribution: of its covariance only the shrinkage is known",
    )
    many = Samples(np.eye(24, WIDTH, dtype=np.float32) * 9, [f"class {i // 2}" for i in range(24)])
    part = part_of(many)
    remarks = COORDINATOR.solve(TOLD, part, tuple(part.samples)).remarks
    assert len(remarks) == 11
    assert remarks[-1] == "and 2 more"


def test_without_data_the_head_is_zero_and_a_class_with_data_needs_an_index():
    assert not solved(FedcofAggregate.empty(TOLD)).weights.any()
    with pytest.raises(MethodError, match="'fox' has data but no index"):
        COORDINATOR.solve(TOLD, part_of(make_samples(12)), NAMES[:3])


def test_one_sample_of_each_class_gives_no_covariance_and_no_head():
    few = make_samples(13, n=4)
    with pytest.raises(MethodError, match=r"shrinkage: 0\.05: .* is not positive definite"):
        solved(part_of(few))


def test_sums_that_no_samples_have_and_other_lineages_are_refused():
    samples = make_samples(14)
    payload = DEVICE.finish(TOLD, samples.features, samples.labels).payload
    with pytest.raises(ContributionError, match="sums"):
        COORDINATOR.check(COORDINATOR.assign({}, WIDTH + 1), payload)
    with pytest.raises(MethodError, match=r"12 and of 13 features .* different lineages"):
        part_of(samples) + FedcofAggregate.empty(COORDINATOR.assign({}, WIDTH + 1))
    with pytest.raises(MethodError, match="form: 'estimated'"):
        DEVICE.finish(TOLD, samples.features, samples.labels, PartContext(form="estimated"))
