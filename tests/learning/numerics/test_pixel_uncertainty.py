"""What the task monitor measures, against loops over pixels, and what a growing head does to it."""

import math

import numpy as np
import pytest

from fleetledger.learning.networks.head import BIAS, WEIGHT
from fleetledger.learning.networks.segmentation.head import grow_from_background
from fleetledger.learning.numerics.detection import DetectionRules, Detector, ScoringHead, observe
from fleetledger.learning.numerics.pixel_uncertainty import (
    mean_entropy,
    mean_uncertainty,
    most_uncertain,
    registered_logits,
)

RULES = DetectionRules(mode="baseline", min_images=20)
ROWS = ("background", "cat", "dog", "owl")
GROWN = (*ROWS, "eel", "fox", "gnu", "hen")
generator = np.random.default_rng(4)
LOGITS = 3 * generator.normal(size=(3, len(ROWS), 5, 7))
COUNTED = generator.random((3, 5, 7)) < 0.7


def entropies(logits, picture, counted=None):
    """The entropies of a picture's pixels, from the highest on."""
    values = []
    for row in range(logits.shape[2]):
        for column in range(logits.shape[3]):
            if counted is None or counted[picture, row, column]:
                scores = [float(value) for value in logits[picture, :, row, column]]
                powers = [math.exp(score - max(scores)) for score in scores]
                shares = [power / sum(powers) for power in powers]
                values.append(-sum(share * math.log(share) for share in shares if share))
    return sorted(values, reverse=True)


def through_head(features, weight, bias):
    return np.einsum("cd,ndhw->nchw", weight, features) + bias[:, None, None]


@pytest.mark.parametrize("counted", [None, COUNTED])
def test_the_mean_entropy_is_in_nats_over_the_pixels_that_count(counted):
    found = mean_entropy(LOGITS, counted)
    for picture in range(3):
        values = entropies(LOGITS, picture, counted)
        assert found[picture] == pytest.approx(sum(values) / len(values))


@pytest.mark.parametrize("counted", [None, COUNTED])
def test_the_most_uncertain_tenth_counts_in_shares_of_the_highest_entropy(counted):
    found = most_uncertain(LOGITS, ROWS, counted=counted)
    for picture in range(3):
        values = entropies(LOGITS, picture, counted)
        tenth = values[: round(len(values) / 10)]
        assert found[picture] == pytest.approx(sum(tenth) / len(tenth) / math.log(4))


@pytest.mark.parametrize("counted", [None, COUNTED])
def test_all_pixels_count_alike_in_shares_of_the_highest_entropy(counted):
    found = mean_uncertainty(LOGITS, ROWS, counted=counted)
    assert found == pytest.approx(mean_entropy(LOGITS, counted) / math.log(4))
    by_two = mean_uncertainty(LOGITS, ROWS, ROWS[:2])
    assert by_two == pytest.approx(
        mean_entropy(registered_logits(LOGITS, ROWS, ROWS[:2])) / math.log(2)
    )


def test_a_small_picture_has_its_most_uncertain_pixel_and_an_empty_one_nothing():
    small = LOGITS[:, :, :1, :3]
    expected = [entropies(small, picture)[0] / math.log(4) for picture in range(3)]
    assert most_uncertain(small, ROWS) == pytest.approx(expected)
    nothing = np.zeros((3, 1, 3), bool)
    assert most_uncertain(small, ROWS, counted=nothing).tolist() == [0.0] * 3
    assert mean_entropy(small, nothing).tolist() == [0.0] * 3


def test_later_rows_are_background():
    wide = 3 * generator.normal(size=(2, len(GROWN), 4, 4))
    found = registered_logits(wide, GROWN, ROWS)
    powers = np.exp(wide)
    expected = np.concatenate(
        [powers[:, :1] + powers[:, 4:].sum(axis=1, keepdims=True), powers[:, 1:4]], axis=1
    )
    np.testing.assert_allclose(np.exp(found), expected)
    assert most_uncertain(wide, GROWN, ROWS) == pytest.approx(
        most_uncertain(np.log(expected), ROWS)
    )


def with_new_rows(weight, bias, classes):
    head = grow_from_background({WEIGHT: weight, BIAS: bias}, classes)
    return head[WEIGHT], head[BIAS]


def test_the_order_of_rows_does_not_matter_and_one_row_measures_nothing():
    known = ("dog", "background", "owl", "cat")
    assert most_uncertain(LOGITS, ROWS, known) == pytest.approx(most_uncertain(LOGITS, ROWS))
    assert registered_logits(LOGITS, ROWS, ("background",)) is LOGITS


def test_growing_the_head_alone_changes_the_measure_by_nothing_and_the_papers_by_ln_k_plus_1():
    features = generator.normal(size=(2, 6, 8, 8))
    features[:, 0] = 30.0  # certain background
    weight, bias = 0.5 * generator.normal(size=(4, 6)), generator.normal(size=4)
    weight[:, 0] = [1, 0, 0, 0]
    before = through_head(features, weight, bias)
    after = through_head(features, *with_new_rows(weight, bias, 4))
    rise = mean_entropy(after) - mean_entropy(before)
    assert rise == pytest.approx([math.log(5)] * 2, abs=1e-6)
    assert (rise > 0.6).all(), "above the paper's threshold"
    features[:, 0] = 0.5  # uncertain everywhere
    before = through_head(features, weight, bias)
    after = through_head(features, *with_new_rows(weight, bias, 4))
    np.testing.assert_allclose(
        most_uncertain(after, GROWN, ROWS), most_uncertain(before, ROWS), rtol=1e-12
    )


def test_pixels_of_a_class_that_no_row_knows_are_told():
    certain = np.zeros((1, 4, 10, 10))
    certain[:, 0] = 8.0
    strange = certain.copy()
    strange[:, :, :3, :3] = 0.0
    assert most_uncertain(strange, ROWS) - most_uncertain(certain, ROWS) > 0.8
    rise = mean_entropy(strange) - mean_entropy(certain)
    assert rise < 0.2, "a mean over all pixels hardly sees them"


def looks(detector, rows, pictures):
    """Let a device look at pictures, given as logits, by the rows of its first look."""
    known = rows if detector.head is None else detector.head.rows
    found = most_uncertain(pictures, rows, known)
    return observe(detector, found.tolist(), ScoringHead(known, 1.0), RULES)


def seen_pictures(seed, strange=False):
    """Pictures of background and a cat, or of something else in the cat's place."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(20, 4, 10, 10))
    logits[:, 0] += 6.0
    logits[:, :, 2:5, 2:5] = draw.normal(size=(20, 4, 3, 3))
    if not strange:
        logits[:, 1, 2:5, 2:5] += 6.0
    return logits


def grown(logits):
    """What a head says that has just grown by four rows."""
    lowered = logits[:, :1] - math.log(5)
    return np.concatenate([lowered, logits[:, 1:], *[lowered] * 4], axis=1)


def test_a_device_tells_a_new_class_and_not_a_head_that_grew():
    detector = Detector()
    for seed in range(5):
        detector, (quiet,) = looks(detector, ROWS, seen_pictures(seed))
        assert not quiet.raised
    for seed in (5, 6):
        detector, (after_growth,) = looks(detector, GROWN, grown(seen_pictures(seed)))
        assert not after_growth.raised
    _, (told,) = looks(detector, GROWN, grown(seen_pictures(7, strange=True)))
    assert told.transition


def test_evidence_by_all_pixels_tells_a_new_class_in_a_small_part_of_them():
    rules, head = DetectionRules(quiet_images=1000), ScoringHead(ROWS, 1.0)
    detector, told = Detector(), []
    for seed in range(7):
        values = mean_uncertainty(seen_pictures(seed, strange=seed >= 4), ROWS)
        detector, found = observe(detector, values.tolist(), head, rules)
        told.append(any(one.transition for one in found))
    assert told[:4] == [False] * 4
    assert any(told[4:])
