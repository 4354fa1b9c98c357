"""What was learned of pixels, stage by stage, against loops over the scores of each stage."""

import json
import math

import numpy as np
import pytest

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from tests.simulator.fake_run import FakeSeed, Shape, fake_results, fake_seed

SHAPE = Shape(stages=4, classes_per_stage=3, pixels=True, seeds=(1, 2))


@pytest.fixture(scope="module")
def fake() -> FakeSeed:
    return fake_seed(SHAPE, seed=5)


def slow_iou(matrix: np.ndarray, value: int) -> float:
    right = matrix[value, value]
    truth = sum(matrix[value, other] for other in range(len(matrix)))
    said = sum(matrix[other, value] for other in range(len(matrix)))
    return float(right / (truth + said - right)) if truth else math.nan


def slow_task(fake: FakeSeed, stage: int, task: int) -> float:
    labels = np.flatnonzero(fake.answers.stage_of_class == task)
    matrix = fake.answers.confusion[stage - 1]
    return float(np.mean([slow_iou(matrix, int(label) + 1) for label in labels]))


def test_every_task_is_scored_after_every_stage(fake: FakeSeed):
    for stage in fake.metrics.stages:
        slow = [slow_task(fake, stage.stage, task) for task in range(1, stage.stage + 1)]
        assert stage.accuracy_of_tasks == pytest.approx(slow)
        assert stage.new_accuracy == pytest.approx(slow[-1])
        assert stage.accuracy_by_tasks == pytest.approx(np.mean(slow))


def test_every_class_and_background_are_scored_by_name(fake: FakeSeed):
    for stage in fake.metrics.stages:
        seen = [name for item in fake.metrics.stages[: stage.stage] for name in item.class_names]
        assert set(stage.class_iou) == {"background", *seen}
        matrix = fake.answers.confusion[stage.stage - 1]
        assert stage.class_iou["background"] == pytest.approx(slow_iou(matrix, 0))
        for name in seen:
            value = fake.plan.class_names.index(name) + 1
            assert stage.class_iou[name] == pytest.approx(slow_iou(matrix, value))
        assert stage.accuracy == pytest.approx(np.mean(list(stage.class_iou.values())))


def test_forgetting_is_the_best_a_task_ever_had_minus_what_it_has(fake: FakeSeed):
    assert fake.metrics.stages[0].forgetting == 0
    last = fake.metrics.stages[-1]
    lost = [
        max(slow_task(fake, stage, task) for stage in range(task, 5)) - slow_task(fake, 4, task)
        for task in (1, 2, 3)
    ]
    assert last.forgetting == pytest.approx(np.mean(lost))
    assert fake.metrics.headline["forgetting"] == last.forgetting > 0


def test_headline_numbers_are_means_of_these(fake: FakeSeed):
    metrics = fake.metrics
    assert metrics.score == "mIoU"
    found = [stage.accuracy for stage in metrics.stages]
    assert metrics.headline["average_incremental_accuracy"] == pytest.approx(np.mean(found))
    assert metrics.headline["final_accuracy"] == found[-1]
    assert metrics.headline["old_accuracy"] == metrics.stages[-1].old_accuracy
    assert metrics.headline["final_average_accuracy"] == metrics.stages[-1].accuracy_by_tasks


def test_what_makes_no_sense_of_pixels_is_unknown_and_not_zero(fake: FakeSeed):
    for stage in fake.metrics.stages:
        for name in ("recall", "f1", "recall_batchwise128", "f1_batchwise128", "device_accuracy"):
            assert getattr(stage, name) is None
        assert stage.task_correct == stage.task_total == ()
    assert all(device.accuracy is None for device in fake.metrics.devices)
    absent = {"recall", "f1_batchwise128", "worst_device_accuracy", "pooled_difference"}
    assert not absent & set(fake.metrics.headline)


def test_a_task_that_no_test_scene_shows_is_left_out():
    answers = fake_seed(SHAPE, seed=3).answers
    confusion = answers.confusion.copy()
    gone = np.flatnonzero(answers.stage_of_class == 2) + 1
    confusion[:, gone] = 0
    learned = type(answers)(confusion, answers.stage_of_class).learned(NAMES)
    assert learned[1].new_accuracy is None
    assert learned[1].task_iou[1] is None
    assert not {NAMES[value - 1] for value in gone} & set(learned[3].class_iou)
    assert learned[3].accuracy_by_tasks == pytest.approx(
        np.mean([learned[3].task_iou[task] for task in (0, 2, 3)])
    )
    assert learned[3].forgetting > 0


NAMES = fake_seed(SHAPE, seed=3).plan.class_names


def test_results_are_written_and_read_again(tmp_path):
    results = fake_results(SHAPE)
    results.write(tmp_path)
    assert RunResults.read(tmp_path) == results
    assert RunResults.read(tmp_path).score == "mIoU"


def test_results_of_runs_before_there_were_pixels_are_read():
    metrics = fake_seed(Shape(stages=2, seeds=(1,)), seed=1).metrics
    kept = json.loads(metrics.model_dump_json())
    del kept["score"]
    for stage in kept["stages"]:
        for name in ("task_iou", "class_iou", "inference"):
            del stage[name]
        for each in stage["rounds"]:
            del each["steps"], each["training_seconds"]
    again = SeedMetrics.model_validate_json(json.dumps(kept))
    assert again == metrics
    assert again.score == "accuracy"
