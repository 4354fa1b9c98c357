"""A head that grows out of background: what changes and what does not."""

import numpy as np
import pytest

from learning.errors import NetworkError
from learning.numerics.background_rows import grown_from_background

generator = np.random.default_rng(2)
WEIGHT = generator.normal(size=(4, 6, 1, 1))
BIAS = generator.normal(size=4)


def probabilities(weight, bias, features):
    scores = weight.reshape(len(weight), -1) @ features + bias
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


@pytest.mark.parametrize("new", [1, 3])
def test_background_is_shared_equally_with_the_new_classes(new):
    features = generator.normal(size=6)
    before = probabilities(WEIGHT, BIAS, features)
    after = probabilities(*grown_from_background(WEIGHT, BIAS, new), features)
    shares = [before[0] / (new + 1)] * new
    expected = [before[0] / (new + 1), *before[1:], *shares]
    np.testing.assert_allclose(after, expected, rtol=1e-12)


def test_new_rows_are_backgrounds_with_a_lower_bias():
    weight, bias = grown_from_background(WEIGHT, BIAS, 2)
    np.testing.assert_array_equal(weight[:4], WEIGHT)
    np.testing.assert_array_equal(weight[4:], np.stack([WEIGHT[0]] * 2))
    lowered = BIAS[0] - np.log(3)
    np.testing.assert_allclose(bias, [lowered, *BIAS[1:], lowered, lowered])


def test_types_stay_and_the_given_tensors_too():
    weight, bias = WEIGHT.astype(np.float32), BIAS.astype(np.float32)
    kept = bias.copy()
    grown = grown_from_background(weight, bias, 2)
    assert [part.dtype for part in grown] == [np.float32, np.float32]
    np.testing.assert_array_equal(bias, kept)


def test_no_new_class_changes_nothing():
    weight, bias = grown_from_background(WEIGHT, BIAS, 0)
    np.testing.assert_array_equal(weight, WEIGHT)
    np.testing.assert_array_equal(bias, BIAS)


@pytest.mark.parametrize(("rows", "biases"), [(0, 0), (4, 3)])
def test_a_head_without_a_bias_for_each_row_is_refused(rows, biases):
    with pytest.raises(NetworkError, match="give a row and a bias"):
        grown_from_background(WEIGHT[:rows], BIAS[:biases], 2)
