"""Macro recall and F1, against scikit-learn and against what LGA printed."""

import numpy as np
import pytest

from fleetledger.simulator.metrics.recall_and_f1 import (
    batchwise_f1,
    batchwise_recall,
    macro_f1,
    macro_recall,
)


def draw(classes: int, samples: int, accuracy: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Unbalanced labels of classes numbered 0, 3, 6 ..., and answers, some of which are missing."""
    random = np.random.default_rng(seed)
    truth = 3 * random.integers(0, classes, samples) * random.integers(0, 2, samples)
    wrong = np.where(random.random(samples) < 0.1, -1, 3 * random.integers(0, classes, samples))
    return truth, np.where(random.random(samples) < accuracy, truth, wrong)


@pytest.mark.parametrize("seed", range(5))
def test_macro_metrics_are_those_of_scikit_learn(seed: int):
    from sklearn.metrics import f1_score, recall_score

    truth, predicted = draw(classes=7, samples=300, accuracy=0.6, seed=seed)
    options = {"labels": np.unique(truth), "average": "macro", "zero_division": 0}
    assert macro_recall(truth, predicted) == pytest.approx(
        recall_score(truth, predicted, **options)
    )
    assert macro_f1(truth, predicted) == pytest.approx(f1_score(truth, predicted, **options))


@pytest.mark.parametrize("seed", range(3))
def test_the_batchwise_form_is_scikit_learn_batch_by_batch(seed: int):
    from sklearn.metrics import f1_score, recall_score

    truth, predicted = draw(classes=20, samples=500, accuracy=0.7, seed=seed)
    classes = 3 * np.arange(20)
    order = np.random.default_rng(0).permutation(500)
    options = {"labels": classes, "average": "macro", "zero_division": 0}
    recall = f1 = 0.0
    for first in range(0, 500, 128):
        batch = order[first : first + 128]
        recall += recall_score(truth[batch], predicted[batch], **options) * len(batch) / 500
        f1 += f1_score(truth[batch], predicted[batch], **options) * len(batch) / 500
    assert batchwise_recall(truth, predicted, classes) == pytest.approx(recall)
    assert batchwise_f1(truth, predicted, classes) == pytest.approx(f1)


def balanced(classes: int, accuracy: float) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-100's test images of so many classes, sorted by class, and so many right answers."""
    truth = np.repeat(np.arange(classes), 100)
    chosen = np.random.default_rng(classes).permutation(len(truth))
    right = np.isin(np.arange(len(truth)), chosen[: round(accuracy * len(truth))])
    return truth, np.where(right, truth, (truth + 1) % classes)


def test_on_balanced_classes_macro_recall_is_the_accuracy():
    truth, predicted = balanced(20, 0.83)
    assert macro_recall(truth, predicted) == pytest.approx(0.83)
    assert macro_f1(truth, predicted) == pytest.approx(0.83, abs=0.01)


@pytest.mark.parametrize(
    ("classes", "accuracy", "predicted", "printed"),
    [
        (20, 83.3, 83.2, 83.6),
        (40, 77.3, 74.3, 74.5),
        (60, 72.8, 64.3, 63.1),
        (80, 67.8, 54.2, 53.4),
        (100, 63.7, 46.1, 44.1),
    ],
)
def test_the_batchwise_form_gives_what_lga_printed(classes, accuracy, predicted, printed):
    """Accuracy and recall of LGA on CIFAR-100 in five stages; the formula, our form, the paper."""
    expected = accuracy * (1 - (1 - 1 / classes) ** 128)
    assert expected == pytest.approx(predicted, abs=0.06)
    truth, answers = balanced(classes, accuracy / 100)
    ours = 100 * batchwise_recall(truth, answers, np.arange(classes))
    assert ours == pytest.approx(predicted, abs=0.7)
    assert ours == pytest.approx(printed, abs=2.0)


def test_the_order_of_the_test_file_does_not_decide_the_batchwise_form():
    truth, answers = balanced(100, 0.64)
    mixed = np.random.default_rng(1).permutation(len(truth))
    sorted_by_class = batchwise_recall(truth, answers, np.arange(100))
    assert batchwise_recall(truth[mixed], answers[mixed], np.arange(100)) == pytest.approx(
        sorted_by_class, abs=0.01
    )
