"""Detection against a slow reference, over simulated sequences, and where it must stay silent."""

import json
import math
import statistics

import numpy as np
import pytest

from fleetledger.learning.numerics.detection import (
    DetectionRules,
    Detector,
    Measurement,
    ScoringHead,
    observe,
    seeded,
    uncertainty,
)

RULES = DetectionRules(mode="baseline", min_images=50, min_history=3)
HEAD = ScoringHead(("cat", "dog", "owl"), 10.0)
GROWN = ScoringHead(("cat", "dog", "owl", "eel"), 10.0)


def slow_entropy(scores: list[float], scale: float) -> float:
    weights = [math.exp(scale * score) for score in scores]
    shares = [weight / sum(weights) for weight in weights]
    return -sum(share * math.log(share) for share in shares)


def values(level: float, seed: int, count: int = 50) -> list[float]:
    draw = np.random.default_rng(seed)
    return [float(v) for v in np.clip(draw.normal(level, 0.1, count), 0, 1)]


def watched(*levels: float, rules: DetectionRules = RULES) -> tuple[Detector, list[Measurement]]:
    """Give one batch per level."""
    detector, seen = Detector(), []
    for seed, level in enumerate(levels):
        detector, measurements = observe(detector, values(level, seed), HEAD, rules)
        seen += measurements
    return detector, seen


def test_values_are_entropies_over_the_logarithm_of_the_number_of_classes() -> None:
    scores = np.random.default_rng(1).normal(size=(20, 3))
    found = uncertainty(scores, HEAD, None, RULES)
    expected = [slow_entropy(row, 10.0) / math.log(3) for row in scores.tolist()]
    assert found == pytest.approx(expected, abs=1e-12)


def test_restricted_values_use_only_the_rows_of_the_last_batch() -> None:
    rules = DetectionRules(mode="baseline", growth="restrict")
    scores = np.random.default_rng(1).normal(size=(20, 4))
    found = uncertainty(scores, GROWN, HEAD, rules)
    expected = [slow_entropy(row[:3], 10.0) / math.log(3) for row in scores.tolist()]
    assert found == pytest.approx(expected, abs=1e-12)


def test_released_values_are_nats_over_all_rows_with_the_programs_epsilon() -> None:
    rules = DetectionRules(mode="fixed-rise")
    scores = np.random.default_rng(1).normal(size=(5, 4))
    found = uncertainty(scores, GROWN, HEAD, rules)
    assert found == pytest.approx([slow_entropy(r, 10.0) for r in scores.tolist()], abs=1e-4)


def test_a_batch_is_compared_with_mean_and_deviation_of_the_earlier_ones() -> None:
    _, seen = watched(0.3, 0.35, 0.32, 0.34, 0.6)
    means = [measurement.uncertainty for measurement in seen]
    baseline = statistics.fmean(means[:4])
    within = statistics.fmean(
        statistics.pvariance(values(level, seed))
        for seed, level in enumerate((0.3, 0.35, 0.32, 0.34))
    )
    assert seen[-1].baseline == pytest.approx(baseline)
    assert seen[-1].deviation == pytest.approx(
        max(statistics.stdev(means[:4]), math.sqrt(within / 50))
    )
    assert seen[-1].transition


def test_nothing_is_said_without_history() -> None:
    _, seen = watched(0.1, 0.9, 0.1)
    assert not any(measurement.raised for measurement in seen)
    assert seen[0].baseline is None


def test_images_wait_until_they_make_a_batch() -> None:
    detector = Detector()
    everything = values(0.3, 0, 120)
    for start in range(0, 120, 7):
        detector, _ = observe(detector, everything[start : start + 7], HEAD, RULES)
    at_once, measurements = observe(Detector(), everything, HEAD, RULES)
    assert len(measurements) == 2
    assert detector.waiting.images == at_once.waiting.images == 20
    assert detector.last is not None
    assert detector.last == pytest.approx(measurements[-1])


def test_a_transition_is_said_once_until_the_level_is_normal_again() -> None:
    _, seen = watched(0.3, 0.3, 0.3, 0.6, 0.6, 0.3, 0.6)
    assert [measurement.transition for measurement in seen] == [False] * 3 + [
        True,
        False,
        False,
        True,
    ]


def test_raised_batches_do_not_become_the_baseline() -> None:
    detector, _ = watched(0.3, 0.3, 0.3, *[0.9] * 30)
    assert len(detector.history) == 3
    assert detector.raised


def test_a_long_quiet_sequence_raises_few_alarms_and_a_small_rise_is_found() -> None:
    _, quiet = watched(*[0.4] * 400)
    assert sum(measurement.transition for measurement in quiet) <= 20
    found = 0
    for seed in range(50):
        detector = Detector()
        for step in range(8):
            detector, _ = observe(detector, values(0.4, 100 * seed + step), HEAD, RULES)
        _, (last,) = observe(detector, values(0.48, 100 * seed + 99), HEAD, RULES)
        found += last.raised
    assert found >= 45


@pytest.mark.parametrize("growth", ["restart", "restrict"])
def test_growing_the_head_alone_is_no_transition(growth: str) -> None:
    rules = DetectionRules(mode="baseline", growth=growth)  # type: ignore[arg-type]
    draw = np.random.default_rng(3)
    detector = Detector()
    for step in range(12):
        head = HEAD if step < 6 else GROWN
        scores = draw.normal(0, 0.03, (50, 4))
        scores[np.arange(50), draw.integers(0, 3, 50)] += 0.5
        scores[:, 3] = scores[:, :3].max(axis=1)  # the new row answers to everything
        seen = uncertainty(scores[:, : len(head.rows)], head, detector.head, rules)
        if step == 6 and growth == "restart":
            assert seen.mean() > 3 * detector.history[-1].mean, "the new row fakes a rise"
        detector, (measurement,) = observe(detector, seen.tolist(), head, rules)
        if growth == "restart" or step <= 6:
            assert not measurement.raised


def test_another_temperature_begins_the_history_anew_and_order_of_rows_does_not() -> None:
    detector, _ = watched(0.3, 0.3, 0.3)
    other_order = ScoringHead(("owl", "cat", "dog"), 10.0)
    assert len(observe(detector, values(0.3, 9), other_order, RULES)[0].history) == 4
    other_scale = ScoringHead(HEAD.rows, 20.0)
    assert len(observe(detector, values(0.9, 9), other_scale, RULES)[0].history) == 1


def test_held_out_images_give_the_first_batches_of_a_head() -> None:
    by_class = sorted(values(0.3, 1, 200))
    detector = seeded(Detector(), by_class, HEAD, RULES)
    assert len(detector.history) == 4
    means = [batch.mean for batch in detector.history]
    assert max(means) - min(means) < 0.02, "every batch has images of all classes"
    _, (measurement,) = observe(detector, values(0.6, 2), HEAD, RULES)
    assert measurement.transition
    assert seeded(detector, values(0.9, 3, 200), HEAD, RULES) == detector, "seeded once"
    assert seeded(Detector(), values(0.3, 1, 149), HEAD, RULES).history == ()


def test_the_released_rule_compares_with_the_batch_before() -> None:
    rules = DetectionRules(mode="fixed-rise", rise_nats=1.2)
    _, seen = watched(0.5, 0.5, 1.9, 2.0, rules=rules)
    # Values above one are cut by `values`, so the rise here is at most 0.5.
    assert not any(measurement.transition for measurement in seen)
    detector, _ = observe(Detector(), [0.2] * 50, HEAD, rules)
    _, (rise,) = observe(detector, [1.5] * 50, HEAD, rules)
    assert rise.transition
    _, (first,) = observe(Detector(), [1.3] * 50, HEAD, rules)
    assert first.transition, "the value before the first is 0"


def test_a_detector_survives_json() -> None:
    detector, _ = watched(0.3, 0.31, 0.3, 0.7)
    detector, _ = observe(detector, [0.1, 0.2], HEAD, RULES)
    assert Detector.from_plain(json.loads(json.dumps(detector.to_plain()))) == detector
    assert Detector.from_plain(json.loads(json.dumps(Detector().to_plain()))) == Detector()
