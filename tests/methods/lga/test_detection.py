"""Detection: equation (8) as it is written, and what it cannot see."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from fleetledger.methods.lga.detection import (
    MOST_CHECKS,
    NoveltyHistory,
    judge_novelty,
    relative_level,
)
from fleetledger.methods.lga.memory import Memory, read_memory
from fleetledger.methods.lga.settings import DetectionSettings, LgaSettings
from tests.methods.lga.making import ANT, BEE, CAT, DOG, EVERY

RISE = DetectionSettings()
RELATIVE = DetectionSettings(detection="relative")
KNOWN = DetectionSettings(detection="relative", looks_at="known")
SEQUENTIAL = DetectionSettings(detection="sequential")
STAGE = DetectionSettings(detection="stage")
SURE = 12.0


def slow_entropy(logits, within=0.0):
    """The mean over the images of - sum p ln(p + within)."""
    total = 0.0
    for scores in logits.tolist():
        powers = [exp(score) for score in scores]
        shares = [power / sum(powers) for power in powers]
        total -= sum(share * log(share + within) for share in shares)
    return total / len(logits)


def scores(images=5, classes=4, scale=1.0, seed=0):
    return scale * np.random.default_rng(seed).normal(size=(images, classes))


def sure(classes, image_of=0, height=SURE):
    """Scores of images that are all of one class, beyond doubt or less."""
    found = np.zeros((6, classes))
    found[:, image_of] = height
    return found


def test_h_is_the_mean_entropy_of_a_softmax():
    for seed in range(5):
        values = scores(scale=3.0, seed=seed)
        seen = judge_novelty(RISE, NoveltyHistory(), values, EVERY, 1)
        assert seen.nats == pytest.approx(slow_entropy(values), rel=1e-12)


def test_in_mode_code_h_has_the_program_s_offset_within_the_logarithm():
    rules = LgaSettings(mode="code", network="resnet8")
    for seed in range(5):
        values = scores(scale=9.0, seed=seed)
        seen = judge_novelty(rules, NoveltyHistory(), values, EVERY, 1)
        assert seen.nats == pytest.approx(slow_entropy(values, 1e-5), rel=1e-12)
        assert seen.nats != pytest.approx(slow_entropy(values), abs=1e-7)
        assert seen.looks.history == (seen.nats,)
    certain = judge_novelty(rules, NoveltyHistory(), sure(4, height=50.0), EVERY, 1)
    assert certain.nats == pytest.approx(-1e-5, rel=1e-3)


def test_a_rise_is_measured_from_the_last_look_and_from_zero_at_first():
    flat = np.zeros((3, 4))  # ln 4 = 1.386 nats
    first = judge_novelty(RISE, NoveltyHistory(), flat, EVERY, 1)
    assert first.transition
    assert first.looks.tasks == 1
    again = judge_novelty(RISE, first.looks, flat, EVERY, 1)
    assert not again.transition
    learned = judge_novelty(RISE, again.looks, sure(4), EVERY, 1)
    assert not learned.transition
    assert learned.nats < 0.01
    new = judge_novelty(RISE, learned.looks, flat, EVERY, 2)
    assert new.transition
    assert new.looks.tasks == 2
    assert len(new.looks.history) == 4


def test_a_rise_of_exactly_the_threshold_counts():
    values = scores()
    nats = judge_novelty(RISE, NoveltyHistory(), values, EVERY, 1).nats
    exact = DetectionSettings(entropy_rise=nats)
    above = DetectionSettings(entropy_rise=np.nextafter(nats, 2))
    assert judge_novelty(exact, NoveltyHistory(), values, EVERY, 1).transition
    assert not judge_novelty(above, NoveltyHistory(), values, EVERY, 1).transition


def test_with_three_classes_nothing_can_rise_by_the_papers_threshold():
    assert not judge_novelty(
        RISE, NoveltyHistory(), np.zeros((3, 3)), (ANT, BEE, CAT), 1
    ).transition
    assert judge_novelty(
        RELATIVE, NoveltyHistory(), np.zeros((3, 3)), (ANT, BEE, CAT), 1
    ).transition


def after(rules, *batches, rows=EVERY):
    """The looks that a device remembers of some batches of one stage."""
    looks = NoveltyHistory()
    for batch in batches:
        looks = judge_novelty(rules, looks, batch, rows, 1).looks
    return looks


def test_relative_entropy_is_compared_with_the_devices_own_looks():
    rest = [sure(4, height=height) for height in (2.0, 5.0, 5.1, 5.2)]
    looks = after(RELATIVE, np.zeros((3, 4)), *rest)
    assert looks.tasks == 1
    assert len(looks.history) == 4
    same = judge_novelty(RELATIVE, looks, sure(4, height=4.9), EVERY, 1)
    assert not same.transition
    new = judge_novelty(RELATIVE, looks, sure(4, height=1.0), EVERY, 1)
    assert new.transition
    assert new.looks.history == ()


@pytest.mark.parametrize(("above", "expected"), [(0.99, False), (1.01, True)])
def test_the_limit_is_deviations_above_the_mean_of_the_last_looks(above, expected):
    values = scores(scale=2.0)
    level = relative_level(values, EVERY, EVERY)
    history = np.array([0.9, 0.10, 0.16, 0.13])
    mean, spread = history[1:].mean(), history[1:].std()
    deviations = (level - mean) / (above * spread)
    rules = DetectionSettings(
        detection="relative", deviations=deviations, smallest_deviation=0.001, looks=3
    )
    looks = NoveltyHistory(1, 1, EVERY, tuple(history))
    assert judge_novelty(rules, looks, values, EVERY, 1).transition is expected


def mixed(strange, seed=0, images=60):
    """Scores of images of which a share is new to the model, the rest more or less sure."""
    draw = np.random.default_rng(seed)
    found = draw.normal(size=(images, 4))
    found[np.arange(images), draw.integers(0, 4, images)] += 5.0
    found[: round(strange * images)] = draw.normal(size=(round(strange * images), 4))
    return found


def test_evidence_over_the_images_of_a_look_is_held_against_the_look_before():
    begun = judge_novelty(SEQUENTIAL, NoveltyHistory(), mixed(0.0), EVERY, 1)
    assert begun.transition, "a first look begins the first task"
    assert sum(begun.looks.levels) == 60
    quiet = [
        judge_novelty(SEQUENTIAL, begun.looks, mixed(0.0, seed), EVERY, 1) for seed in range(1, 31)
    ]
    assert sum(seen.transition for seen in quiet) <= 2
    changed = [
        judge_novelty(SEQUENTIAL, begun.looks, mixed(1.0, seed), EVERY, 1) for seed in range(1, 31)
    ]
    assert all(seen.transition for seen in changed)
    surer = judge_novelty(SEQUENTIAL, begun.looks, 4 * mixed(0.0, 1), EVERY, 1)
    assert not surer.transition, "a model that has learned doubts less, and that is no change"


def test_what_the_look_before_is_held_against_survives_in_memory():
    seen = judge_novelty(SEQUENTIAL, NoveltyHistory(), mixed(0.0), EVERY, 1)
    assert read_memory(Memory(looks=seen.looks).write()).looks == seen.looks


def test_rows_that_the_head_grew_fake_a_rise_unless_they_are_left_out():
    """Confident images of old classes, and rows that nobody has trained."""
    known, height = (ANT, BEE), 4.0
    old = sure(2, height=height)
    many = (*known, *(f"new{number}" for number in range(200)))
    grown = np.concatenate([old, np.full((6, 200), 1.0)], axis=1)
    for rules, fooled in ((RISE, True), (RELATIVE, True), (KNOWN, False)):
        looks = after(rules, np.zeros((3, 2)), old, old, old, rows=known)
        assert judge_novelty(rules, looks, grown, many, 1).transition is fooled


def test_relative_looks_count_the_rows_that_they_are_told():
    values = scores(classes=4, scale=2.0)
    assert relative_level(values, EVERY, (BEE, DOG)) == pytest.approx(
        slow_entropy(values[:, [1, 3]]) / log(2), rel=1e-12
    )
    every = slow_entropy(values) / log(4)
    assert relative_level(values, EVERY, (BEE,)) == pytest.approx(every, rel=1e-12)
    assert relative_level(values, EVERY, ()) == pytest.approx(every, rel=1e-12)


def test_a_newer_stage_is_a_transition_by_itself():
    first = judge_novelty(STAGE, NoveltyHistory(), sure(2), (ANT, BEE), 1)
    assert first.transition
    assert not judge_novelty(STAGE, first.looks, np.zeros((2, 4)), EVERY, 1).transition
    second = judge_novelty(STAGE, first.looks, sure(4), EVERY, 2)
    assert second.transition
    assert (second.looks.tasks, second.looks.stage) == (2, 2)
    assert not judge_novelty(STAGE, second.looks, sure(4), EVERY, 1).transition


def test_the_history_is_bounded():
    looks = after(RISE, *[sure(4)] * (MOST_CHECKS + 5))
    assert len(looks.history) == MOST_CHECKS
