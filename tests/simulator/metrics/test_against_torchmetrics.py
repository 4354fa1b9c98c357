"""The same numbers as torchmetrics, where it has the metric."""

import numpy as np
import pytest
import torch

torchmetrics = pytest.importorskip(
    "torchmetrics.functional.classification", reason="needs torchmetrics: extra dev-torch"
)

from fleetledger.simulator.metrics.confusion import count_pairs  # noqa: E402
from fleetledger.simulator.metrics.recall_and_f1 import (  # noqa: E402
    batchwise_f1,
    batchwise_recall,
    macro_f1,
    macro_recall,
)
from fleetledger.simulator.metrics.segmentation import PixelCounts, score_stage  # noqa: E402
from tests.simulator.fake_run import Shape, fake_seed  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def answers():
    return fake_seed(Shape(stages=4, classes_per_stage=5), seed=3).answers


def as_rows(labels: np.ndarray, classes: np.ndarray):
    """Torchmetrics wants labels from 0 without gaps."""
    return torch.from_numpy(np.searchsorted(classes, labels))


@pytest.mark.parametrize("stage", [1, 2, 3, 4])
def test_accuracy_recall_and_f1(answers, stage: int):
    truth, predicted = answers.answered(stage)
    classes = answers.seen(stage)
    rows, said = as_rows(truth, classes), as_rows(predicted, classes)
    options = {"num_classes": len(classes)}
    accuracy = torchmetrics.multiclass_accuracy(said, rows, average="micro", **options)
    recall = torchmetrics.multiclass_recall(said, rows, average="macro", **options)
    f1 = torchmetrics.multiclass_f1_score(said, rows, average="macro", **options)
    ours = answers.task_scores().accuracy_seen()[stage - 1]
    assert ours == pytest.approx(float(accuracy), abs=1e-6)
    assert macro_recall(truth, predicted) == pytest.approx(float(recall), abs=1e-6)
    assert macro_f1(truth, predicted) == pytest.approx(float(f1), abs=1e-6)


def test_the_batchwise_form(answers):
    truth, predicted = answers.answered(4)
    classes = answers.seen(4)
    order = np.random.default_rng(0).permutation(len(truth))
    recall = f1 = 0.0
    for first in range(0, len(truth), 128):
        batch = order[first : first + 128]
        said, rows = as_rows(predicted[batch], classes), as_rows(truth[batch], classes)
        options = {"num_classes": len(classes), "average": "none", "zero_division": 0}
        share = len(batch) / len(truth)
        recall += share * float(torchmetrics.multiclass_recall(said, rows, **options).mean())
        f1 += share * float(torchmetrics.multiclass_f1_score(said, rows, **options).mean())
    assert batchwise_recall(truth, predicted, classes) == pytest.approx(recall, abs=1e-6)
    assert batchwise_f1(truth, predicted, classes) == pytest.approx(f1, abs=1e-6)


def test_the_confusion_of_classes(answers):
    truth, predicted = answers.answered(4)
    expected = torchmetrics.multiclass_confusion_matrix(
        torch.from_numpy(predicted), torch.from_numpy(truth), num_classes=20
    )
    assert count_pairs(truth, predicted, 20).tolist() == expected.tolist()


@pytest.mark.parametrize("missing", [None, 4])
def test_the_iou_of_classes(missing: int | None):
    random = np.random.default_rng(0)
    truth = random.integers(0, 8, (4, 20, 30)).astype(np.uint8)
    truth[truth == missing] = 0
    predicted = np.where(random.random(truth.shape) < 0.7, truth, truth[::-1]).astype(np.uint8)
    truth[:, :2] = 255
    ours = PixelCounts.of(truth, predicted, classes=7).iou()
    theirs = torchmetrics.multiclass_jaccard_index(
        torch.from_numpy(predicted).long(),
        torch.from_numpy(truth).long(),
        num_classes=8,
        average="none",
        ignore_index=255,
    ).numpy()
    there = np.arange(8) != missing
    assert ours[there] == pytest.approx(theirs[there], abs=1e-6)
    assert np.isnan(ours).tolist() == (~there).tolist()
    scores = score_stage(PixelCounts.of(truth, predicted, classes=7), [range(4), range(4, 7)])
    assert scores.all == pytest.approx(float(theirs[there].mean()), abs=1e-6)
