"""Solving for the head, against ridge regression on the pooled samples in float64."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from fleetledger.learning.numerics.ridge_choice import RIDGES
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.sides import FeatureMoments
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.coordinator import COORDINATOR
from fleetledger.methods.stsa.messages import StsaAssignment
from fleetledger.methods.stsa.settings import PRESETS, StsaSettings
from fleetledger.schemas.values import ClassName
from tests.methods.stsa.fleet import (
    EVERY_KIND,
    Samples,
    assignment,
    exactly,
    make_samples,
    payload_of,
    payloads,
    summed,
)

NAMES = tuple(ClassName(f"class {i}") for i in range(4))


def pooled_weights(samples: Samples, ridge: float) -> np.ndarray:
    H = samples.features.astype(np.float64)
    Y = np.array([[label == name for name in NAMES] for label in samples.labels], np.float64)
    stacked = np.concatenate([H, np.sqrt(ridge) * np.eye(H.shape[1])])
    targets = np.concatenate([Y, np.zeros((H.shape[1], len(NAMES)))])
    return np.linalg.lstsq(stacked, targets, rcond=None)[0].T


@pytest.mark.parametrize("kind", [k for k in EVERY_KIND if k["form"] == "exact"])
def test_the_head_is_pooled_ridge_regression(kind):
    told = assignment(kind)
    samples = make_samples(told, 200, classes=4)
    parts = payloads(told, samples, np.array_split(np.arange(200), 7))
    head = COORDINATOR.solve(told, summed(told, parts), NAMES)
    expected = pooled_weights(samples, told.settings.ridge_value)
    assert head.weights.dtype == np.float32
    assert np.abs(head.weights - expected).max() < 1e-6 * np.abs(expected).max()


def test_the_compact_head_is_close_to_it():
    told = assignment({"map_width": 40, "compact_bits": 15})
    samples = make_samples(told, 200, classes=4)
    parts = payloads(told, samples, np.array_split(np.arange(200), 7))
    head = COORDINATOR.solve(told, summed(told, parts), NAMES)
    expected = pooled_weights(samples, told.settings.ridge_value)
    assert np.abs(head.weights - expected).max() < 0.01 * np.abs(expected).max()


@pytest.mark.parametrize("head", ["linear", "cosine", "whitened"])
@pytest.mark.parametrize("kind", [EVERY_KIND[0], EVERY_KIND[3], EVERY_KIND[6]])
def test_a_head_tells_how_new_samples_are_whatever_its_lengths(kind, head):
    told = assignment({**kind, "head": head, "novelty": "distance"})
    samples = make_samples(told, 200, classes=4)
    parts = payloads(told, samples, np.array_split(np.arange(200), 3))
    order = (ClassName("later"), *reversed(NAMES))
    solved = COORDINATOR.solve(told, summed(told, parts), order)
    plain = COORDINATOR.solve(
        assignment({**kind, "novelty": "distance"}), summed(told, parts), order
    )
    assert solved.novelty is not None
    assert solved.novelty.rows.tolist() == [4, 3, 2, 1]
    found = solved.novelty.of_scores(solved.scores(samples.features))
    expected = plain.novelty.of_scores(plain.scores(samples.features))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    others = make_samples(told, 200, classes=4, seed=9)  # around other centres
    assert np.median(solved.novelty.of_scores(solved.scores(others.features))) > np.median(found)


def test_without_the_setting_and_of_a_single_class_there_is_no_novelty():
    told = assignment({**EVERY_KIND[0], "novelty": "distance"})
    lone = summed(told, [payload_of(told, make_samples(told, 20, classes=1))])
    assert COORDINATOR.solve(told, lone, NAMES).novelty is None
    assert COORDINATOR.solve(told, StsaAggregate.empty(told), NAMES).novelty is None
    aggregate, plain = example()
    assert COORDINATOR.solve(plain, aggregate, NAMES).novelty is None


def example(count: int = 120) -> tuple[StsaAggregate, StsaAssignment]:
    told = assignment({"map_width": 100, "form": "exact"})
    return summed(told, [payload_of(told, make_samples(told, count, classes=4))]), told


def test_rows_follow_the_order_of_the_registry_and_nothing_else():
    aggregate, told = example()
    head = COORDINATOR.solve(told, aggregate, NAMES)
    other = COORDINATOR.solve(told, aggregate, NAMES[::-1])
    assert np.array_equal(other.weights, head.weights[::-1])
    assert exactly(other) != exactly(head)


def test_a_registered_class_without_data_gets_a_row_of_zeros():
    aggregate, told = example()
    head = COORDINATOR.solve(told, aggregate, NAMES)
    longer = COORDINATOR.solve(told, aggregate, (ClassName("new"), *NAMES))
    assert not longer.weights[0].any()
    assert np.array_equal(longer.weights[1:], head.weights)


def test_without_any_data_the_head_is_zero():
    told = assignment()
    head = COORDINATOR.solve(told, StsaAggregate.empty(told), NAMES)
    assert head.weights.shape == (4, 40)
    assert not head.weights.any()


def test_a_class_with_data_must_have_an_index():
    aggregate, told = example()
    with pytest.raises(MethodError, match="'class 3' has data but no index"):
        COORDINATOR.solve(told, aggregate, NAMES[:3])
    with pytest.raises(MethodError, match="named twice"):
        COORDINATOR.solve(told, aggregate, (*NAMES, NAMES[0]))


def test_the_head_does_not_depend_on_the_threads_of_blas():
    aggregate, told = example()
    heads = set()
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            heads.add(exactly(COORDINATOR.solve(told, aggregate, NAMES)))
    assert len(heads) == 1


def test_a_head_without_a_device_is_that_of_a_fleet_which_never_had_it():
    told = assignment()
    samples = make_samples(told, 120, classes=4)
    parts = payloads(told, samples, np.array_split(np.arange(120), 5))
    retracted = summed(told, parts) - summed(told, [parts[2]])
    never = summed(told, [parts[0], parts[1], parts[3], parts[4]])
    heads = [COORDINATOR.solve(told, found, NAMES) for found in (retracted, never)]
    assert exactly(heads[0]) == exactly(heads[1])


def test_a_ridge_too_small_for_the_data_is_named():
    aggregate, told = example(count=5)
    tiny = COORDINATOR.assign({**told.settings.model_dump(), "ridge": 1e-12}, told.feature_width)
    with pytest.raises(MethodError, match=r"ridge: G \+ 1e-12 I is not positive definite"):
        COORDINATOR.solve(tiny, aggregate, NAMES)


def test_the_head_says_what_it_was_solved_with():
    aggregate, told = example()
    head = COORDINATOR.solve(told, aggregate, NAMES)
    assert (head.ridge, head.logit_scale) == (told.settings.ridge_value, 10.0)
    assert "numpy" in head.fingerprint


def test_predictions_are_the_largest_scores():
    told = assignment()
    samples = make_samples(told, 200, classes=4)
    head = COORDINATOR.solve(told, summed(told, [payload_of(told, samples)]), NAMES)
    scores = samples.features.astype(np.float64) @ head.weights.astype(np.float64).T
    assert np.allclose(head.scores(samples.features), scores)
    right = np.mean(
        [p == q for p, q in zip(head.predict(samples.features), samples.labels, strict=True)]
    )
    assert right > 0.8


def test_a_ridge_from_sums_is_that_ridge_given_and_does_not_see_how_images_are_divided() -> None:
    told = assignment({"map_width": 100, "form": "exact", "ridge": "from-sums"})
    samples = make_samples(told, 120, classes=4)
    parts = payloads(told, samples, np.array_split(np.arange(120), 7))
    whole = summed(told, [payload_of(told, samples)])
    head = COORDINATOR.solve(told, whole, NAMES)
    assert np.array_equal(COORDINATOR.solve(told, summed(told, parts), NAMES).weights, head.weights)
    given = assignment({"map_width": 100, "form": "exact", "ridge": head.ridge})
    assert np.array_equal(COORDINATOR.solve(given, whole, NAMES).weights, head.weights)
    assert head.ridge in [127**2 * ridge for ridge in RIDGES]


def test_a_whitened_head_gives_cosines_after_whitening_by_the_gram_matrix() -> None:
    told = assignment({"map_width": 40, "form": "exact", "head": "whitened", "ridge": 5e5})
    samples = make_samples(told, 200, classes=4)
    head = COORDINATOR.solve(told, summed(told, [payload_of(told, samples)]), NAMES)
    H = samples.features.astype(np.float64)
    values, vectors = np.linalg.eigh(H.T @ H + 5e5 * np.eye(40))
    root = vectors / np.sqrt(values) @ vectors.T
    means = np.stack([H[[n == name for n in samples.labels]].mean(axis=0) for name in NAMES])
    cosines = (H @ root) @ (means @ root).T / np.linalg.norm(means @ root, axis=1)
    scores = head.scores(samples.features)
    factor = (scores * cosines).sum() / (cosines**2).sum()
    np.testing.assert_allclose(scores, factor * cosines, atol=1e-5 * np.abs(scores).max())


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_preset_sets_what_it_says_and_nothing_else(preset: str) -> None:
    plain = StsaSettings(**dict(PRESETS[preset])).model_dump()
    assert StsaSettings.model_validate({"preset": preset}).model_dump() == {
        **plain,
        "preset": preset,
    }


def test_released_heads_rank_by_cosines_behind_the_papers_map() -> None:
    exact, estimated = (
        StsaSettings.model_validate({"preset": f"released{name}"}) for name in ("", "-estimated")
    )
    for settings in (exact, estimated):
        assert (settings.map, settings.ridge, settings.head) == ("gaussian", 1e6, "cosine")
    assert (exact.form, estimated.form, estimated.groups) == ("exact", "estimated", 5)
    assert estimated.counts_empty_groups


def test_the_preset_best_fills_in_what_is_not_given() -> None:
    best = StsaSettings.model_validate({"preset": "best"})
    assert (best.map, best.form, best.ridge, best.head) == (
        "none",
        "exact",
        "from-sums",
        "whitened",
    )
    compact = StsaSettings.model_validate({"preset": "best", "form": "compact"})
    assert (compact.map, compact.form) == ("none", "compact")
    assert StsaSettings.model_validate(compact.model_dump()) == compact


@pytest.mark.parametrize(("form", "near"), [("exact", 1e-9), ("compact", 0.02)])
def test_sums_tell_how_features_lie_over_all_samples(form, near):
    told = assignment({"map_width": 40, "form": form})
    samples = make_samples(told, 300)
    total = summed(told, payloads(told, samples, np.array_split(np.arange(300), 3)))
    moments = COORDINATOR.feature_moments(told, total)
    features = samples.features.astype(np.float64)
    assert np.allclose(moments.centre, features.mean(axis=0), rtol=near)
    usual = features.std(axis=0)
    assert np.allclose(moments.spread[usual > 0], usual[usual > 0], rtol=near)
    assert (moments.spread > 0).all()


def test_features_that_never_vary_have_no_spread_to_tell():
    with pytest.raises(MethodError, match="no sample differs from another"):
        FeatureMoments.of(np.ones((2, 2)), np.ones(2), 1)
