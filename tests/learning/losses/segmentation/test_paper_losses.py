"""FBL's losses of the paper against loops over pixels, and their gradients by differences."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation.forgetting_balance import (
    balanced_magnitudes,
    balancing_weights,
    forgetting_exponent,
    gradient_magnitudes,
)
from fleetledger.learning.losses.segmentation.pixels import (
    class_means,
    counted_mean,
    pixel_cross_entropy,
    pixel_entropy,
)
from fleetledger.learning.losses.segmentation.relation_consistency import (
    relation_consistency,
    relation_labels,
)
from tests.learning.losses.segmentation import slow
from tests.learning.losses.segmentation.scene import (
    CHANNELS,
    OLD,
    TASKS,
    drawn,
)

pytestmark = pytest.mark.torch

LOGITS, OLD_LOGITS, SHOWN = drawn()
THRESHOLDS = slow.adaptive_thresholds([(LOGITS, OLD_LOGITS, SHOWN)], OLD, 0.7)
LABELS = slow.adaptive_labels(LOGITS, OLD_LOGITS, SHOWN, THRESHOLDS, 0)
NOW, BEFORE, MARKED = (torch.from_numpy(array) for array in (LOGITS, OLD_LOGITS, LABELS))
GROUPS = torch.tensor(TASKS)
EXPONENT = forgetting_exponent(4, 2)
SLOW_VALUES = slow.balanced(LOGITS, LABELS, OLD, EXPONENT)


def values(logits=NOW, labels=MARKED, exponent=EXPONENT):
    return balanced_magnitudes(gradient_magnitudes(logits, labels), labels, OLD, exponent)


def by_place(found, labels=LABELS):
    return [float(found[place]) for place in slow.counted(labels)]


def all_ignored():
    return torch.full_like(MARKED, 255)


def test_the_scene_holds_what_may_go_wrong():
    assert set(np.unique(LABELS)) == {0, 1, 2, 3, 5, 255}
    assert set(np.unique(SHOWN[-1])) == {0, 255}


def test_entropy_is_in_nats():
    found = pixel_entropy(NOW)
    expected = [slow.entropy(LOGITS, place) for place in slow.pixels(LABELS)]
    np.testing.assert_allclose(found.flatten().numpy(), expected, rtol=1e-12)


def test_cross_entropy_is_the_mean_over_pixels_that_count():
    found = counted_mean(pixel_cross_entropy(NOW, MARKED), MARKED)
    assert float(found) == pytest.approx(slow.cross_entropy(LOGITS, LABELS), rel=1e-12)
    assert counted_mean(pixel_cross_entropy(NOW, all_ignored()), all_ignored()) == 0


def test_means_by_class_leave_absent_classes_and_ignored_pixels_out():
    found = class_means(NOW, MARKED, CHANNELS)
    for k in range(CHANNELS):
        own = [LOGITS[i, :, r, c] for i, r, c in slow.counted(LABELS) if LABELS[i, r, c] == k]
        expected = np.mean(own, axis=0) if own else np.zeros(CHANNELS)
        np.testing.assert_allclose(found[k].numpy(), expected, rtol=1e-12)


def test_old_classes_gradients_are_raised_to_the_devices_share_of_old_classes():
    np.testing.assert_allclose(by_place(values()), list(SLOW_VALUES.values()), rtol=1e-9)
    assert forgetting_exponent(4, 2) == pytest.approx(2 / 3)
    assert forgetting_exponent(0, 0) == 1


@pytest.mark.parametrize("exponent", [0.0, 2 / 3, 1.0])
def test_pixels_weigh_against_their_task_and_background_against_itself(exponent):
    slow_values = slow.balanced(LOGITS, LABELS, OLD, exponent)
    expected = slow.balancing_weights(slow_values, LABELS, TASKS)
    found = balancing_weights(values(exponent=exponent), MARKED, GROUPS)
    np.testing.assert_allclose(by_place(found), list(expected.values()), rtol=1e-9)
    assert (found[MARKED == 255] == 0).all()


def test_the_mean_weight_of_each_group_is_one():
    found = balancing_weights(values(), MARKED, GROUPS)
    for group in range(4):
        inside = torch.isin(MARKED, torch.nonzero(group == GROUPS).flatten())
        assert float(found[inside].mean()) == pytest.approx(1.0)


def test_pixels_weigh_one_in_a_group_without_a_gradient():
    certain = torch.full((1, CHANNELS, 1, 2), -1e4).double()
    certain[:, 0] = 1e4
    background = torch.zeros(1, 1, 2, dtype=torch.int64)
    magnitudes = gradient_magnitudes(certain, background)
    assert (magnitudes == 0).all()
    assert (balancing_weights(magnitudes, background, GROUPS) == 1).all()


def test_compensation_is_the_weighted_mean():
    weights = balancing_weights(values(), MARKED, GROUPS)
    found = counted_mean(weights * pixel_cross_entropy(NOW, MARKED), MARKED)
    slow_weights = slow.balancing_weights(SLOW_VALUES, LABELS, TASKS)
    expected = slow.cross_entropy(LOGITS, LABELS, slow_weights)
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_relations_are_the_equations():
    found = relation_consistency(NOW, BEFORE, MARKED, values(), GROUPS)
    expected = slow.relation_consistency(LOGITS, OLD_LOGITS, LABELS, SLOW_VALUES, TASKS)
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_without_a_class_there_are_no_relations():
    for labels in (torch.zeros_like(MARKED), all_ignored()):
        found = relation_consistency(NOW, BEFORE, labels, values(labels=labels), GROUPS)
        assert found == 0


def test_relations_hold_where_the_model_says_what_the_label_does():
    labels = torch.full((1, 1, 4), 5)
    before = torch.randn(1, OLD, 1, 4, dtype=torch.float64)
    wanted = relation_labels(before, labels, CHANNELS)[5] / 2
    logits = wanted.log().clamp(min=-1e3)[None, :, None, None].expand(1, -1, 1, 4)
    found = relation_consistency(logits, before, labels, values(logits, labels), GROUPS)
    assert float(found) == pytest.approx(0, abs=1e-12)


def test_relations_are_finite_where_the_model_excludes_a_class():
    logits = NOW.float().clone()
    logits[:, 2] = -1e4
    logits.requires_grad_()
    loss = relation_consistency(logits, BEFORE.float(), MARKED, values().float(), GROUPS)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


def test_gradients_are_those_of_differences_with_weights_held():
    weights = balancing_weights(values(), MARKED, GROUPS)
    held = values()

    def compensation(logits):
        return counted_mean(weights * pixel_cross_entropy(logits, MARKED), MARKED)

    def relations(logits):
        return relation_consistency(logits, BEFORE, MARKED, held, GROUPS)

    for loss in (compensation, relations):
        assert torch.autograd.gradcheck(loss, (NOW.clone().requires_grad_(),))


def test_no_gradient_flows_through_weights_and_the_old_model():
    logits, before = NOW.clone().requires_grad_(), BEFORE.clone().requires_grad_()
    magnitudes = values(logits)
    assert not magnitudes.requires_grad
    assert not relation_labels(before, MARKED, CHANNELS).requires_grad


def test_bfloat16_autocast_leaves_means_as_they_are():
    with torch.autocast("cpu", torch.bfloat16):
        found = class_means(NOW.float(), MARKED, CHANNELS)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, class_means(NOW, MARKED, CHANNELS), rtol=1e-5, atol=1e-6)
