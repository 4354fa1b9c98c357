"""The prior of class frequencies: its numbers, what cancels out, and what it does to a softmax."""

from math import inf, log

import pytest
import torch

from fleetledger.learning.losses.cross_entropy import cross_entropy
from fleetledger.learning.losses.prior import log_prior

pytestmark = pytest.mark.torch

COUNTS = torch.tensor([3, 0, 8, 1])
LOGITS = torch.tensor([[0.3, 2.0, -1.0, 0.5], [1.0, -0.2, 0.1, 0.4]], dtype=torch.float64)
TARGETS = torch.tensor([2, 0])
WEIGHT = torch.ones(2, dtype=torch.float64)


@pytest.mark.parametrize(
    ("strength", "absent", "wanted"),
    [
        (1.0, 0.0, [log(3), -inf, log(8), 0]),
        (0.5, 0.0, [0.5 * log(3), -inf, 0.5 * log(8), 0]),
        (1.0, 1.0, [log(3), 0, log(8), 0]),
        (2.0, 0.1, [2 * log(3), 2 * log(0.1), 2 * log(8), 0]),
        (0.0, 0.0, [0, -inf, 0, 0]),
    ],
)
def test_a_prior_is_the_logarithm_of_counts_and_absent_classes_have_theirs(
    strength, absent, wanted
):
    prior = log_prior(COUNTS, strength, absent)
    assert prior.dtype == torch.float32
    assert prior.tolist() == pytest.approx(wanted)


def test_a_common_factor_of_the_counts_cancels_out():
    few, many = (
        cross_entropy(LOGITS, TARGETS, WEIGHT, prior=log_prior(factor * COUNTS, 0.7, 0.0))
        for factor in (1, 5)
    )
    assert float(few) == pytest.approx(float(many), rel=1e-6)


def test_equally_frequent_classes_leave_the_cross_entropy_as_it_is():
    even = log_prior(torch.tensor([4, 4, 4, 4]), 1.0, 0.0)
    plain = cross_entropy(LOGITS, TARGETS, WEIGHT)
    assert float(cross_entropy(LOGITS, TARGETS, WEIGHT, prior=even)) == pytest.approx(float(plain))


def test_a_class_that_is_left_out_is_outside_the_softmax_and_gets_no_push():
    logits = LOGITS.clone().requires_grad_()
    value = cross_entropy(logits, TARGETS, WEIGHT, prior=log_prior(COUNTS, 0.0, 0.0))
    within = cross_entropy(LOGITS, TARGETS, WEIGHT, COUNTS > 0)
    assert value.item() == pytest.approx(within.item(), rel=1e-12)
    (gradient,) = torch.autograd.grad(value, logits)
    assert gradient[:, 1].tolist() == [0, 0]
    assert bool(torch.isfinite(gradient).all())


def test_the_best_scores_are_those_of_equally_frequent_classes():
    """Nine of ten samples are of one class, and all look alike: their scores become equal."""
    scores = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0] * 9 + [1])
    prior = log_prior(torch.bincount(targets), 1.0, 0.0).double()
    for told, wanted in ((prior, 0.0), (None, log(9))):
        loss = cross_entropy(
            (scores + torch.tensor([wanted, 0.0])).expand(10, 2),
            targets,
            torch.ones(10, dtype=torch.float64),
            prior=told,
        )
        (gradient,) = torch.autograd.grad(loss, scores)
        assert gradient.tolist() == pytest.approx([0, 0], abs=1e-6)
