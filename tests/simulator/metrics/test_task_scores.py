"""Accuracy and forgetting, against loops that read like the equations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.task_scores import TaskScores


def make_scores(stages: int, seed: int, *, equal_tasks: bool = False) -> TaskScores:
    random = np.random.default_rng(seed)
    sizes = np.full(stages, 40) if equal_tasks else random.integers(1, 100, stages)
    total = np.tile(sizes, (stages, 1)).astype(np.int64)
    correct = random.integers(0, total + 1)
    upper = np.triu_indices(stages, 1)
    total[upper] = correct[upper] = 0
    return TaskScores(correct, total)


scores = st.builds(make_scores, stages=st.integers(1, 7), seed=st.integers(0, 10**6))


def a(scores: TaskScores, t: int, i: int) -> float:
    return float(scores.correct[t, i]) / float(scores.total[t, i])


@given(scores)
def test_final_average_accuracy_is_equation_59(s: TaskScores):
    last = s.stages - 1
    slow = sum(a(s, last, i) for i in range(s.stages)) / s.stages
    assert s.final_average_accuracy() == pytest.approx(slow)


@given(scores)
def test_average_incremental_accuracy_by_tasks_is_equation_60(s: TaskScores):
    slow = 0.0
    for t in range(s.stages):
        slow += sum(a(s, t, i) for i in range(t + 1)) / (t + 1) / s.stages
    assert s.average_incremental_accuracy("tasks") == pytest.approx(slow)


@given(scores)
def test_average_incremental_accuracy_by_samples_asks_every_sample_once(s: TaskScores):
    slow = []
    for t in range(s.stages):
        answers = []
        for i in range(t + 1):
            right = int(s.correct[t, i])
            answers += [1] * right + [0] * (int(s.total[t, i]) - right)
        slow.append(sum(answers) / len(answers))
    assert s.average_incremental_accuracy() == pytest.approx(sum(slow) / len(slow))
    assert s.accuracy_seen().tolist() == pytest.approx(slow)


@given(st.integers(1, 6), st.integers(0, 1000))
def test_both_weightings_agree_for_tasks_of_equal_size(stages: int, seed: int):
    s = make_scores(stages, seed, equal_tasks=True)
    assert s.accuracy_seen("tasks").tolist() == pytest.approx(s.accuracy_seen("samples").tolist())


@given(scores)
def test_forgetting_is_equation_61_after_every_stage(s: TaskScores):
    for last in range(s.stages):
        losses = []
        for i in range(last):
            best = max(a(s, t, i) for t in range(i, last + 1))
            losses.append(best - a(s, last, i))
        slow = sum(losses) / len(losses) if losses else 0.0
        assert s.forgetting(after=last) == pytest.approx(slow)
        assert s.forgetting(after=last) >= 0
    assert s.forgetting() == s.forgetting(after=s.stages - 1)


def test_accuracy_is_known_below_the_diagonal_only():
    s = TaskScores(np.array([[3, 0], [2, 9]]), np.array([[4, 0], [4, 10]]))
    assert s.accuracy()[0, 0] == 0.75
    assert np.isnan(s.accuracy()[0, 1])
    assert s.accuracy()[1].tolist() == [0.5, 0.9]
    assert s.forgetting() == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("correct", "total"),
    [
        (np.zeros((2, 3)), np.ones((2, 3))),
        (np.zeros((2, 2)), np.ones((3, 3))),
        (np.zeros((0, 0)), np.zeros((0, 0))),
        (np.array([[1, 0], [1, 2]]), np.array([[1, 0], [1, 1]])),
        (np.array([[1, 0], [-1, 1]]), np.array([[1, 0], [1, 1]])),
        (np.array([[1, 0], [0, 1]]), np.array([[1, 0], [0, 1]])),
    ],
)
def test_scores_that_cannot_be_are_refused(correct: np.ndarray, total: np.ndarray):
    with pytest.raises(MetricsError, match="scores"):
        TaskScores(correct.astype(np.int64), total.astype(np.int64))


def test_a_stage_that_never_was_is_refused():
    with pytest.raises(MetricsError, match="after"):
        make_scores(2, seed=0).forgetting(after=2)
