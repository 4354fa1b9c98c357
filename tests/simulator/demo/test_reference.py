"""The pooled reference, against an obvious loop and a closed form."""

import numpy as np
import pytest

from simulator.demo.reference import Pooled, pooled_accuracy, solve_ridge


def make_pooled(seed: int, samples: int = 60, width: int = 6) -> Pooled:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 4, samples)
    centres = np.random.default_rng(99).normal(size=(4, width))
    return Pooled(centres[labels] + random.normal(size=(samples, width)), labels)


def test_the_head_minimises_the_ridge_objective():
    train, classes, ridge = make_pooled(0), [2, 0, 1, 3], 1.5
    W = solve_ridge(train, classes, ridge)
    Y = np.array([[float(label == c) for c in classes] for label in train.labels])

    def objective(weights: np.ndarray) -> float:
        return float(((Y - train.features @ weights) ** 2).sum() + ridge * (weights**2).sum())

    random = np.random.default_rng(1)
    for _ in range(50):
        assert objective(W) < objective(W + 0.01 * random.normal(size=W.shape))


def test_one_feature_gives_the_closed_form():
    train = Pooled(np.array([[1.0], [2.0], [3.0]]), np.array([0, 1, 1]))
    assert solve_ridge(train, [0, 1], 2.0)[0] == pytest.approx([1 / 16, 5 / 16])


def test_accuracy_after_each_stage_agrees_with_a_loop_over_the_samples():
    train, test = make_pooled(0), make_pooled(1)
    fast = pooled_accuracy(train, test, [[1, 3], [0], [2]], ridge=0.1)
    for accuracy, seen in zip(fast, ([1, 3], [1, 3, 0], [1, 3, 0, 2]), strict=True):
        W = solve_ridge(train.of_classes(seen), seen, 0.1)
        right = asked = 0
        for h, label in zip(test.features, test.labels, strict=True):
            if label in seen:
                scores = [sum(h * W[:, column]) for column in range(len(seen))]
                right += seen[scores.index(max(scores))] == label
                asked += 1
        assert accuracy == right / asked
    assert fast[0] > 0.5
