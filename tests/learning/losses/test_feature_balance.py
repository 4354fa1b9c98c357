"""Feature balance (FedHAF, equation 3): who counts, when it is 0, and where it has no slope."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.balance import feature_balance
from tests.learning.losses import slow

pytestmark = pytest.mark.torch

CLASSES, WIDTH = 7, 4
NEW = torch.tensor([False, False, False, True, True, True, True])
NEW_CLASSES = [3, 4, 5, 6]


def batch(targets, seed=0):
    """Return features and targets of one batch."""
    values = np.random.default_rng(seed).normal(size=(len(targets), WIDTH))
    return torch.from_numpy(values), torch.tensor(targets, dtype=torch.int64)


def balance(features, targets, weight=None):
    given = torch.ones(len(targets)).double() if weight is None else weight
    return float(feature_balance(features, targets, given, NEW))


@pytest.mark.parametrize(
    "targets",
    [[0, 3], [0, 0, 0, 3], [0, 1, 2, 3, 4, 5, 6], [2, 2, 6, 6, 6, 0], [5, 1, 5, 1, 1, 4, 3, 3]],
)
def test_every_class_of_the_batch_counts_once_and_absent_ones_not(targets):
    features, labels = batch(targets)
    wanted = slow.feature_balance(features.numpy(), targets, NEW_CLASSES)
    assert wanted > 0
    assert balance(features, labels) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("targets", [[0], [3], [0, 1, 1], [3, 4, 6, 6], []])
def test_without_a_new_or_without_an_old_class_it_is_zero(targets):
    features, labels = batch(targets)
    features.requires_grad_()
    value = feature_balance(features, labels, torch.ones(len(targets)).double(), NEW)
    assert float(value.detach()) == 0
    assert not torch.autograd.grad(value, features)[0].any()


def test_rows_that_do_not_count_are_as_if_absent():
    features, labels = batch([0, 3, 1, 4, 4, 0])
    features[[1, 4]] = torch.inf
    weight = torch.tensor([1, 0, 1, 1, 0, 1]).double()
    rows = [0, 2, 3, 5]
    alone = balance(features[rows], labels[rows])
    assert balance(features, labels, weight) == pytest.approx(alone, rel=1e-12)


def test_twice_the_samples_of_one_class_change_nothing():
    features, labels = batch([0, 1, 3, 4])
    twice = torch.cat([features, features[:1]]), torch.cat([labels, labels[:1]])
    assert balance(*twice) == pytest.approx(balance(features, labels), rel=1e-12)


@pytest.mark.parametrize("length", [0.3, 3.0])
def test_the_gradient_is_that_of_finite_differences_for_either_sign(length):
    features, labels = batch([0, 3, 1, 4, 4, 0])
    features = (features * torch.where(NEW[labels], 1.0, length)[:, None]).requires_grad_()
    weight = torch.tensor([1, 1, 1, 1, 1, 0]).double()
    assert torch.autograd.gradcheck(lambda f: feature_balance(f, labels, weight, NEW), features)


def test_at_no_difference_and_at_no_length_the_slope_is_zero():
    for features in (torch.ones(2, WIDTH), torch.zeros(2, WIDTH)):
        given = features.double().requires_grad_()
        value = feature_balance(given, torch.tensor([0, 3]), torch.ones(2).double(), NEW)
        assert float(value.detach()) == 0
        assert not torch.autograd.grad(value, given)[0].any()


def test_a_feature_of_no_length_has_no_slope_where_there_is_a_difference():
    features, labels = batch([0, 3])
    features[0] = 0
    features.requires_grad_()
    value = feature_balance(features, labels, torch.ones(2).double(), NEW)
    (gradient,) = torch.autograd.grad(value, features)
    assert not gradient[0].any()
    wanted = features[1].detach() / features[1].detach().norm()
    assert torch.allclose(gradient[1], wanted, rtol=1e-12)


def test_in_a_stack_every_agent_has_its_own_classes():
    agents = ([0, 3, 0, 4], [1, 1, 5], [6], [0, 1])
    features = torch.zeros(len(agents), 4, WIDTH, dtype=torch.float64)
    labels, weight = torch.zeros(len(agents), 4).long(), torch.zeros(len(agents), 4).double()
    wanted = []
    for agent, targets in enumerate(agents):
        rows = len(targets)
        features[agent, :rows], labels[agent, :rows] = batch(targets, seed=agent)
        weight[agent, :rows] = 1
        wanted.append(slow.feature_balance(features[agent, :rows].numpy(), targets, NEW_CLASSES))
    shared = feature_balance(features, labels, weight, NEW)
    own = feature_balance(features, labels, weight, NEW.expand(len(agents), CLASSES))
    assert shared.tolist() == pytest.approx(wanted, rel=1e-12, abs=0)
    assert torch.equal(shared, own)
