"""Fed3R: from features to a head, against ridge regression on the pooled samples in float64."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.fed3r.aggregate import Fed3rAggregate
from fleetledger.methods.fed3r.coordinator import COORDINATOR
from fleetledger.methods.fed3r.device import DEVICE
from fleetledger.methods.fed3r.messages import LocalStatistics, encode_statistics
from fleetledger.methods.statistics.class_sums import ClassSums
from fleetledger.methods.statistics.linear_head import LinearHead
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.stsa.coordinator import COORDINATOR as STSA_COORDINATOR
from fleetledger.methods.stsa.device import DEVICE as STSA_DEVICE
from fleetledger.schemas.values import ClassName
from tests.methods.samples import NAMES, WIDTH, Samples, cosine_of, make_samples, shares

TOLD = COORDINATOR.assign({}, WIDTH)


def part_of(samples: Samples) -> Fed3rAggregate:
    payload = DEVICE.finish(TOLD, samples.features, samples.labels).payload
    return Fed3rAggregate.of(TOLD, COORDINATOR.check(TOLD, payload), stage=1)


def summed(parts: list[Fed3rAggregate]) -> Fed3rAggregate:
    total = Fed3rAggregate.empty(TOLD)
    for part in parts:
        total = total + part
    return total


def solved(aggregate: Fed3rAggregate) -> LinearHead:
    return COORDINATOR.solve(TOLD, aggregate, NAMES)


def pooled_ridge(samples: Samples, ridge: float) -> np.ndarray:
    """Least squares with `ridge` as further rows, on features of which the largest is 1: (C, M)."""
    H = samples.features.astype(np.float64) / 127
    stacked = np.concatenate([H, np.sqrt(ridge) * np.eye(WIDTH)])
    targets = np.concatenate([samples.one_hot, np.zeros((WIDTH, len(NAMES)))])
    return np.linalg.lstsq(stacked, targets, rcond=None)[0].T


@pytest.mark.parametrize("ridge", [0.01, 3.0])
def test_the_head_is_pooled_ridge_regression_with_rows_of_one_length(ridge: float):
    samples = make_samples(1)
    total = summed([part_of(samples[rows]) for rows in shares(samples, 7, 0)])
    head = COORDINATOR.solve(COORDINATOR.assign({"ridge": ridge}, WIDTH), total, NAMES)
    expected = cosine_of(pooled_ridge(samples, ridge))
    assert head.weights.dtype == np.float32
    assert np.allclose(cosine_of(head.weights), expected, atol=1e-6)
    usual = np.sqrt(np.mean(np.sum(samples.features.astype(np.float64) ** 2, axis=1)))
    assert np.allclose(np.linalg.norm(head.weights, axis=1) * usual, 1, atol=1e-6)


def test_answers_are_those_of_the_pooled_samples():
    samples, new = make_samples(2), make_samples(3)
    head = solved(summed([part_of(samples[rows]) for rows in shares(samples, 5, 1)]))
    scores = new.features.astype(np.float64) @ cosine_of(pooled_ridge(samples, 0.01)).T
    assert head.predict(new.features) == [NAMES[i] for i in scores.argmax(axis=1)]
    right = [a == b for a, b in zip(head.predict(new.features), new.labels, strict=True)]
    assert np.mean(right) > 0.9


@pytest.mark.parametrize("devices", [1, 5, 30])
def test_no_order_and_no_division_changes_digest_and_head(devices: int):
    samples = make_samples(4)
    whole = part_of(samples)
    for seed in range(3):
        parts = [part_of(samples[rows]) for rows in shares(samples, devices, seed)]
        for total in (summed(parts), summed(parts[::-1])):
            assert total.digest == whole.digest
            assert np.array_equal(solved(total).weights, solved(whole).weights)


def test_taking_a_device_out_leaves_the_fleet_that_never_had_it():
    samples = make_samples(5)
    parts = [part_of(samples[rows]) for rows in shares(samples, 6, 1)]
    without = summed(parts) - parts[2]
    never = summed([*parts[:2], *parts[3:]])
    assert without.digest == never.digest
    assert np.array_equal(solved(without).weights, solved(never).weights)
    nothing = without - never
    assert nothing.digest == Fed3rAggregate.empty(TOLD).digest
    with pytest.raises(MethodError, match="was not added"):
        parts[0] - summed(parts)


def test_stages_with_classes_of_their_own_add_up_to_the_pooled_data():
    samples = make_samples(6)
    early = np.array([label in NAMES[:2] for label in samples.labels])
    stages = [part_of(samples[np.flatnonzero(rows)]) for rows in (early, ~early)]
    assert not solved(stages[0]).weights[2:].any()
    assert summed(stages).digest == part_of(samples).digest


def test_classes_of_one_name_are_merged_as_if_they_had_always_had_it():
    samples = make_samples(7)
    merged = part_of(samples).renamed({NAMES[3]: NAMES[0]})
    renamed = [NAMES[0] if label == NAMES[3] else label for label in samples.labels]
    direct = part_of(Samples(samples.features, renamed))
    assert merged.samples == direct.samples == {"cat": 80, "dog": 40, "eel": 40}
    assert merged.digest == direct.digest


def test_other_data_gives_another_digest():
    samples = make_samples(8)
    mirrored = Samples(samples.features.copy(), samples.labels)
    # The same class sums with another Gram matrix: two samples of a class move apart.
    first, second = [i for i, label in enumerate(samples.labels) if label == NAMES[0]][:2]
    mirrored.features[first, 0] += 1
    mirrored.features[second, 0] -= 1
    assert part_of(mirrored).digest != part_of(samples).digest


def test_without_data_the_head_is_zero_and_a_class_with_data_needs_an_index():
    assert not solved(Fed3rAggregate.empty(TOLD)).weights.any()
    with pytest.raises(MethodError, match="'fox' has data but no index"):
        COORDINATOR.solve(TOLD, part_of(make_samples(9)), NAMES[:3])


def test_a_ridge_too_small_for_the_data_is_named():
    few = make_samples(10, n=4)
    tiny = COORDINATOR.assign({"ridge": 1e-18}, WIDTH)
    with pytest.raises(MethodError, match="is not positive definite; choose a larger ridge"):
        COORDINATOR.solve(tiny, part_of(few), NAMES)


def changed(samples: Samples, gram_at: int, change: int, sums_change: int = 0) -> bytes:
    """Return the payload of samples with one number of G, and one class sum, changed."""
    told = COORDINATOR.check(TOLD, DEVICE.finish(TOLD, samples.features, samples.labels).payload)
    gram, sums = told.gram.copy(), told.classes.sums.copy()
    gram[gram_at] += change
    sums[0, 0] += sums_change
    names, counts = told.classes.class_names, told.classes.counts
    return encode_statistics(LocalStatistics(ClassSums(names, counts, sums), gram))


def test_statistics_that_no_samples_have_are_refused():
    samples = make_samples(11, n=20)
    with pytest.raises(ContributionError, match="at 0; samples with these class sums"):
        COORDINATOR.check(TOLD, changed(samples, 0, 20 * 127**2))
    with pytest.raises(ContributionError, match="on the diagonal at 0"):
        COORDINATOR.check(TOLD, changed(samples, 0, -20 * 127**2))
    with pytest.raises(ContributionError, match="for features 0 and 1; samples with"):
        COORDINATOR.check(TOLD, changed(samples, 1, 20 * 127**2))
    with pytest.raises(ContributionError, match="feature 0 of class 'cat'; 5 samples give"):
        COORDINATOR.check(TOLD, changed(samples, 0, 0, sums_change=2 * 5 * 127))


def test_class_sums_that_the_gram_matrix_does_not_allow_are_refused():
    zeros = Samples(np.zeros((20, WIDTH), np.float32), [NAMES[0]] * 20)
    with pytest.raises(
        ContributionError,
        match="gram: 0 on the diagonal at 0; samples with",
    ):
        COORDINATOR.check(TOLD, changed(zeros, 0, 0, sums_change=1))


def test_samples_at_the_edge_of_what_is_possible_pass():
    edge = Samples(np.full((6, WIDTH), -127, np.float32), [NAMES[0], NAMES[1]] * 3)
    assert part_of(edge).samples == {"cat": 3, "dog": 3}


def test_payloads_of_another_form_are_refused():
    gram = np.zeros(WIDTH * (WIDTH + 1) // 2, np.int64)
    one, two = (np.zeros((rows, WIDTH), np.int64) for rows in (1, 2))
    counts = np.array([1, 1])
    names = (ClassName("cat"), ClassName("dog"))
    for sums, triangle, message in ((one, gram, "1 row for 2 counts"), (two, gram[1:], "gram")):
        payload = encode_statistics(LocalStatistics(ClassSums(names, counts, sums), triangle))
        with pytest.raises(ContributionError, match=message):
            COORDINATOR.check(TOLD, payload)
    with pytest.raises(ContributionError):
        COORDINATOR.check(TOLD, b"no payload at all")


def test_a_form_that_there_is_not_and_features_too_many_are_refused():
    samples = make_samples(12)
    with pytest.raises(MethodError, match="form: 'compact'"):
        DEVICE.finish(TOLD, samples.features, samples.labels, PartContext(form="compact"))
    with pytest.raises(MethodError, match="feature_width: 16385"):
        COORDINATOR.assign({}, 16_385)


def test_stsa_without_map_and_with_a_cosine_head_solves_for_the_same_head():
    samples = make_samples(14)
    settings = {
        "map": "none",
        "form": "exact",
        "head": "cosine",
        "ridge": TOLD.settings.added_ridge,
    }
    told = STSA_DEVICE.read_assignment({"settings": settings, "feature_width": WIDTH})
    payload = STSA_DEVICE.finish(told, samples.features, samples.labels).payload
    statistics = STSA_COORDINATOR.check(told, payload)
    other = STSA_COORDINATOR.aggregate_type.of(told, statistics, stage=1)
    head = STSA_COORDINATOR.solve(told, other, NAMES)
    assert np.array_equal(head.weights, solved(part_of(samples)).weights)


def test_parts_of_other_features_are_not_added():
    with pytest.raises(MethodError, match="different lineages"):
        part_of(make_samples(13)) + Fed3rAggregate.empty(COORDINATOR.assign({}, WIDTH + 1))


def test_sums_tell_how_features_lie_over_all_samples():
    samples = make_samples(3)
    total = summed([part_of(samples[rows]) for rows in shares(samples, 5, 1)])
    moments = COORDINATOR.feature_moments(TOLD, total)
    features = samples.features.astype(np.float64)
    assert np.allclose(moments.centre, features.mean(axis=0), rtol=1e-12)
    assert np.allclose(moments.spread, features.std(axis=0), rtol=1e-9)
