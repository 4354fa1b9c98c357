"""Accuracy and forgetting, against loops that read like the equations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.task_scores import (
    TaskScores,
    backward_transfer,
    forward_transfer,
    intransigence,
    jain_index,
)


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


@given(scores)
def test_backward_transfer_is_equation_3_of_gem(s: TaskScores):
    last = s.stages - 1
    found = backward_transfer(s.accuracy())
    if last == 0:
        assert found is None
        return
    slow = sum(a(s, last, i) - a(s, i, i) for i in range(last)) / last
    assert found == pytest.approx(slow)


def test_backward_transfer_leaves_out_a_task_that_nobody_knows():
    matrix = np.array([[0.5, np.nan, np.nan], [0.4, np.nan, np.nan], [0.2, 0.9, 0.7]])
    assert backward_transfer(matrix) == pytest.approx(0.2 - 0.5)


@given(st.integers(2, 7), st.integers(0, 1000))
def test_forward_transfer_is_equation_4_of_gem(tasks: int, seed: int):
    """R (T, T) whole, as where every task is asked of every model."""
    random = np.random.default_rng(seed)
    R, b = random.random((tasks, tasks)), random.random(tasks)
    slow = 0.0
    for i in range(2, tasks + 1):
        slow += R[i - 2, i - 1] - b[i - 1]
    ahead = np.array([np.nan, *(R[i - 1, i] for i in range(1, tasks))])
    assert forward_transfer(ahead, b) == pytest.approx(slow / (tasks - 1))


@given(scores, st.integers(0, 1000))
def test_intransigence_is_joint_minus_own_on_each_new_task(s: TaskScores, seed: int):
    joint = make_scores(s.stages, seed)
    slow = [a(joint, k, k) - a(s, k, k) for k in range(s.stages)]
    found = intransigence(s.accuracy(), joint.accuracy())
    assert found == pytest.approx(sum(slow) / len(slow))


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=20))
def test_jain_s_index_lies_between_one_device_and_all(values: list[float]):
    top = sum(values) * sum(values)
    found = jain_index(np.array(values))
    assert found == pytest.approx(top / (len(values) * sum(x * x for x in values)))
    assert 1 / len(values) - 1e-9 <= found <= 1 + 1e-9
    assert jain_index(np.full(3, values[0])) == pytest.approx(1)
    assert jain_index(np.array([0.0, 0.0, values[0]])) == pytest.approx(1 / 3)


def test_jain_s_index_of_nothing_is_unknown():
    assert jain_index(np.zeros(3)) is None
