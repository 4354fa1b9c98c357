"""Probabilities and entropies against their definitions."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fleetledger.learning.numerics.entropy import entropy, relative_entropy, softmax

scores = npst.arrays(np.float32, (3, 4), elements=st.floats(-5, 5, width=32))


@given(scores, st.floats(0.1, 20))
def test_softmax_is_its_definition_with_the_scale_applied_first(values, scale):
    logits = [[scale * float(v) for v in row] for row in values]
    slow = [[exp(v) / sum(exp(u) for u in row) for v in row] for row in logits]
    assert np.allclose(softmax(values, scale), slow, rtol=1e-9)


def test_large_scores_do_not_overflow():
    assert softmax(np.array([[1e6, 0.0]])).tolist() == [[1.0, 0.0]]


@given(scores)
def test_entropy_is_its_definition(values):
    p = softmax(values)
    slow = [-sum(v * log(v) for v in row) for row in p]
    assert np.allclose(entropy(p), slow)
    assert np.allclose(relative_entropy(p), np.array(slow) / log(4))


def test_a_uniform_guess_has_entropy_ln_c_and_a_sure_one_none():
    p = np.array([[0.25] * 4, [1, 0, 0, 0]])
    assert entropy(p) == pytest.approx([log(4), 0])
    assert relative_entropy(p) == pytest.approx([1, 0])
    assert not np.signbit(entropy(p)).any()


def test_one_class_leaves_no_doubt():
    assert relative_entropy(np.ones((2, 1))).tolist() == [0, 0]
