"""Confusion between classes and between tasks, against loops and scikit-learn."""

import numpy as np
import pytest

from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.confusion import Counts, count_pairs
from tests.simulator.fake_run import Shape, fake_seed


@pytest.fixture(scope="module")
def answers() -> Answers:
    return fake_seed(Shape(stages=4, classes_per_stage=3), seed=2).answers


def class_confusion(answers: Answers, stage: int) -> Counts:
    return count_pairs(*answers.answered(stage), len(answers.stage_of_class))


def test_classes_are_confused_as_scikit_learn_says(answers: Answers):
    from sklearn.metrics import confusion_matrix

    for stage in range(1, 5):
        truth, predicted = answers.answered(stage)
        expected = confusion_matrix(truth, predicted, labels=np.arange(12))
        assert class_confusion(answers, stage).tolist() == expected.tolist()


def test_tasks_are_confused_as_a_loop_says(answers: Answers):
    expected = np.zeros((4, 4), int)
    for truth, said in zip(*answers.answered(3), strict=True):
        expected[answers.stage_of_class[truth] - 1, answers.stage_of_class[said] - 1] += 1
    assert answers.task_confusion(3).tolist() == expected.tolist()
    assert not expected[3].any()


def test_what_has_no_answer_is_in_no_column():
    answers = Answers(np.array([0, 0, 1]), np.array([[0, -1, 0]], np.int32), np.array([1, 1]))
    assert class_confusion(answers, 1).tolist() == [[1, 0], [1, 0]]
    assert answers.task_confusion(1).tolist() == [[2]]


def test_the_accuracy_of_a_class_is_its_diagonal_over_its_samples(answers: Answers):
    confusion = class_confusion(answers, 2)
    accuracy = answers.class_accuracy(2)
    for label in range(12):
        if answers.stage_of_class[label] <= 2:
            assert accuracy[label] == confusion[label, label] / 40
        else:
            assert np.isnan(accuracy[label])
