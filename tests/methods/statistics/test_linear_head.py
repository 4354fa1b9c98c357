"""Heads with a row for every registered class."""

import numpy as np
import pytest

from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.linear_head import LinearHead, cosine_weights, rows_in_order
from fleetledger.schemas.values import ClassName

A, B, C = ClassName("a"), ClassName("b"), ClassName("c")


def test_rows_stand_in_the_order_of_the_classes_and_missing_ones_are_zero():
    rows = rows_in_order({B: np.array([3.0, 4.0]), A: np.array([1.0, 2.0])}, (A, C, B), 2)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[1, 2], [0, 0], [3, 4]]


def test_a_head_predicts_the_class_with_the_largest_score():
    head = LinearHead(np.array([[1, 0], [0, 2]], np.float32), (A, B))
    features = np.array([[3, 1], [1, 1]])
    assert head.scores(features).tolist() == [[3, 2], [1, 2]]
    assert head.predict(features) == [A, B]
    assert head.remarks == ()


def test_cosine_weights_have_one_length_and_keep_their_direction_and_zeros():
    weights = cosine_weights(np.array([[3.0, 0.0, 1.0], [4.0, 0.0, 0.0]]), 10.0)
    assert np.allclose(weights, [[0.06, 0, 0.1], [0.08, 0, 0]])
    assert np.allclose(cosine_weights(np.ones((2, 1)), 0.0), np.sqrt(0.5))


@pytest.mark.parametrize(
    ("order", "told"), [((A,), "'b' has data but no index"), ((A, B, A), "named twice")]
)
def test_an_order_that_does_not_fit_is_refused(order, told: str):
    with pytest.raises(MethodError, match=told):
        rows_in_order({A: np.zeros(2), B: np.zeros(2)}, order, 2)
