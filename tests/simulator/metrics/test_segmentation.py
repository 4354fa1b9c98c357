"""IoU of classes and tasks, against loops over pixels."""

import math

import numpy as np
import pytest

from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.segmentation import PixelCounts, score_stage

CLASSES = 6


def masks(seed: int, shape=(3, 8, 9), missing: tuple[int, ...] = ()):
    """Truth without some values but with 255, and predictions with all values."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, CLASSES + 1, shape).astype(np.uint8)
    truth[np.isin(truth, missing)] = 0
    predicted = np.where(random.random(shape) < 0.6, truth, random.integers(0, CLASSES + 1, shape))
    truth[random.random(shape) < 0.1] = 255
    return truth, predicted.astype(np.uint8)


def slow_iou(truth, predicted, value: int) -> float:
    pairs = [(t, p) for t, p in zip(truth.ravel(), predicted.ravel(), strict=True) if t != 255]
    if not any(t == value for t, _ in pairs):
        return math.nan
    both = sum(t == value and p == value for t, p in pairs)
    either = sum(value in pair for pair in pairs)
    return both / either


def slow_mean(numbers: list[float]) -> float:
    held = [number for number in numbers if not math.isnan(number)]
    return sum(held) / len(held) if held else math.nan


@pytest.mark.parametrize("missing", [(), (3,), (0, 2)])
def test_iou_is_what_a_loop_over_pixels_says(missing: tuple[int, ...]):
    truth, predicted = masks(1, missing=missing)
    if 0 in missing:
        truth[truth == 0] = 1
    ours = PixelCounts.of(truth, predicted, CLASSES).iou()
    slow = [slow_iou(truth, predicted, value) for value in range(CLASSES + 1)]
    assert ours == pytest.approx(slow, nan_ok=True)
    assert np.flatnonzero(np.isnan(ours)).tolist() == list(missing)


def test_a_matrix_counts_the_truth_in_rows():
    truth = np.array([[0, 1, 1, 255, 2]], np.uint8)
    predicted = np.array([[0, 2, 1, 2, 2]], np.uint8)
    assert PixelCounts.of(truth, predicted, 2).matrix.tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 1]]


def test_counts_of_parts_add_up_to_those_of_the_whole():
    truth, predicted = masks(2)
    whole = PixelCounts.of(truth, predicted, CLASSES)
    added = PixelCounts.none(CLASSES)
    for one, other in zip(truth, predicted, strict=True):
        added = added + PixelCounts.of(one, other, CLASSES)
    assert np.array_equal(added.matrix, whole.matrix)
    assert added.matrix.dtype == np.int64
    assert added.matrix.sum() == (truth != 255).sum()


def test_what_is_said_where_the_truth_is_255_does_not_count():
    truth, predicted = masks(3)
    changed = np.where(truth == 255, 5, predicted).astype(np.uint8)
    ours = PixelCounts.of(truth, predicted, CLASSES)
    assert np.array_equal(ours.matrix, PixelCounts.of(truth, changed, CLASSES).matrix)


def test_means_are_over_the_classes_that_the_truth_has():
    tasks = [(0, 3), (2, 5), (1, 4)]  # labels; values are one more
    truth, predicted = masks(4, missing=(3,))
    iou = [slow_iou(truth, predicted, value) for value in range(CLASSES + 1)]
    scores = score_stage(PixelCounts.of(truth, predicted, CLASSES), tasks)
    assert scores.all == pytest.approx(slow_mean(iou))
    assert scores.old == pytest.approx(slow_mean([iou[v] for v in (0, 1, 4, 3, 6)]))
    assert scores.new == pytest.approx(slow_mean([iou[2], iou[5]]))
    expected = [slow_mean([iou[a + 1], iou[b + 1]]) for a, b in tasks]
    assert scores.tasks == pytest.approx(expected)
    assert scores.tasks[1] == iou[6]  # value 3 is missing
    assert scores.iou == pytest.approx(iou, nan_ok=True)


def test_a_perfect_prediction_scores_one_and_background_for_all_scores_nothing():
    truth = np.array([[0, 1, 2, 255]], np.uint8)
    perfect = score_stage(
        PixelCounts.of(truth, np.array([[0, 1, 2, 0]], np.uint8), 2), [(0,), (1,)]
    )
    assert (perfect.all, perfect.old, perfect.new, perfect.tasks) == (1, 1, 1, (1, 1))
    blind = score_stage(PixelCounts.of(truth, np.zeros((1, 4), np.uint8), 2), [(0,), (1,)])
    assert blind.iou.tolist() == pytest.approx([1 / 3, 0, 0])
    assert (blind.all, blind.old, blind.new) == pytest.approx((1 / 9, 1 / 6, 0))


def test_after_the_first_task_nothing_is_old():
    truth, predicted = masks(5)
    scores = score_stage(PixelCounts.of(truth, predicted, CLASSES), [range(CLASSES)])
    assert math.isnan(scores.old)
    assert scores.all == pytest.approx(scores.iou.mean())
    assert scores.tasks == (scores.new,)


def test_a_task_whose_classes_the_truth_lacks_has_no_number():
    truth, predicted = masks(6, missing=(5, 6))
    predicted[predicted >= 5] = 0
    scores = score_stage(PixelCounts.of(truth, predicted, CLASSES), [(0, 1, 2, 3), (4, 5)])
    assert math.isnan(scores.new)
    assert scores.all == scores.old


@pytest.mark.parametrize("where", ["truth", "predicted"])
def test_pixels_of_a_class_that_nobody_has_seen_are_refused(where: str):
    truth, predicted = np.zeros((1, 3), np.uint8), np.zeros((1, 3), np.uint8)
    (truth if where == "truth" else predicted)[0, 1] = 4
    counts = PixelCounts.of(truth, predicted, CLASSES)
    with pytest.raises(MetricsError, match="value 4, which is of no task so far"):
        score_stage(counts, [(0, 1)])


def test_what_does_not_fit_is_told():
    truth, predicted = masks(7)
    with pytest.raises(MetricsError, match=r"predicted: shape \(2, 8, 9\) beside \(3, 8, 9\)"):
        PixelCounts.of(truth, predicted[:2], CLASSES)
    with pytest.raises(MetricsError, match="truth: values from 0 to 6; there are 0 to 4"):
        PixelCounts.of(truth, predicted, 4)
    with pytest.raises(MetricsError, match="predicted: values from 255 to 255"):
        PixelCounts.of(truth, np.full_like(truth, 255), CLASSES)
    with pytest.raises(MetricsError, match="7 and 4 values"):
        PixelCounts.none(6) + PixelCounts.none(3)
    with pytest.raises(MetricsError, match="tasks: none"):
        score_stage(PixelCounts.none(6), [])
