"""Terms of logits and features against plain Python, alone and in a stack, and by differences."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.balance import feature_balance
from fleetledger.learning.losses.binary import binary_cross_entropy, one_hot_with_old
from fleetledger.learning.losses.cross_entropy import cross_entropy, cross_entropy_within_tasks
from fleetledger.learning.losses.distillation import distillation, divergence
from fleetledger.learning.losses.features import feature_angle, feature_distance
from fleetledger.learning.losses.fedmax import fedmax
from fleetledger.learning.losses.pooled_outputs import margin_loss, pooled_distance
from fleetledger.learning.losses.prior import log_prior
from tests.learning.losses import slow
from tests.learning.losses.stacks import (
    check_gradient,
    check_stack,
    members,
    t,
    weight_of,
)

pytestmark = pytest.mark.torch

AGENTS, ROWS, CLASSES, OLD = 4, 5, 6, 4
VALID = (5, 3, 1, 0)
"""Valid rows of each agent; the last has none."""

generator = np.random.default_rng(3)
LOGITS = generator.normal(size=(AGENTS, ROWS, CLASSES))
TEACHER = generator.normal(size=(AGENTS, ROWS, OLD))
TARGETS = generator.integers(0, CLASSES, (AGENTS, ROWS))
MASKS = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]], bool)
TASKS = np.array([[1, 1, 2, 2, 3, 3], [1, 1, 1, 1, 1, 1], [1, 2, 1, 2, 1, 2], [1, 2, 3, 4, 5, 6]])
LABELS = generator.uniform(size=(AGENTS, ROWS, CLASSES))
FACTOR = generator.uniform(size=(AGENTS, ROWS))
COUNTS = np.stack([3 * np.bincount(row, minlength=CLASSES) for row in TARGETS])
"""Of each agent; none has all classes."""
assert (COUNTS == 0).any(axis=1).all()


def stack_weight():
    return weight_of(VALID, ROWS)


def priors(absent):
    return np.stack([log_prior(t(counts).double(), 0.7, absent).numpy() for counts in COUNTS])


def maps(values):
    """One channel of 2 x 3 for each row."""
    return values.reshape(*values.shape[:-1], 1, 2, 3)


def scope(agent):
    return np.append(MASKS[agent], [True, False])


FORMS = {
    "cross-entropy": (
        lambda take, w: cross_entropy(take(LOGITS), take(TARGETS), w),
        lambda k, n: slow.cross_entropy(LOGITS[k, :n], TARGETS[k, :n], list(range(CLASSES))),
    ),
    "cross-entropy of a scope": (
        lambda take, w: cross_entropy(
            take(LOGITS), take(TARGETS), w, take(np.stack([scope(k) for k in range(AGENTS)]))
        ),
        lambda k, n: slow.cross_entropy(LOGITS[k, :n], TARGETS[k, :n], members(scope(k))),
    ),
    "cross-entropy within tasks": (
        lambda take, w: cross_entropy_within_tasks(
            take(LOGITS), take(TARGETS), w, take(TASKS), take(priors(1.0))
        ),
        lambda k, n: slow.cross_entropy_within_tasks(
            LOGITS[k, :n], TARGETS[k, :n], TASKS[k], priors(1.0)[k]
        ),
    ),
    "cross-entropy with a prior": (
        lambda take, w: cross_entropy(take(LOGITS), take(TARGETS), w, prior=take(priors(0.0))),
        lambda k, n: slow.prior_cross_entropy(LOGITS[k, :n], TARGETS[k, :n], COUNTS[k], 0.7),
    ),
    "cross-entropy with a prior that counts absent classes": (
        lambda take, w: cross_entropy(take(LOGITS), take(TARGETS), w, prior=take(priors(1.0))),
        lambda k, n: slow.prior_cross_entropy(
            LOGITS[k, :n], TARGETS[k, :n], np.maximum(COUNTS[k], 1), 0.7
        ),
    ),
    "distillation": (
        lambda take, w: distillation(take(LOGITS), take(TEACHER), w, 2.0),
        lambda k, n: slow.distillation(LOGITS[k, :n], TEACHER[k, :n], 2.0, list(range(OLD))),
    ),
    "distillation on known classes": (
        lambda take, w: distillation(take(LOGITS), take(TEACHER), w, 2.0, take(MASKS)),
        lambda k, n: slow.distillation(LOGITS[k, :n], TEACHER[k, :n], 2.0, members(MASKS[k])),
    ),
    "divergence": (
        lambda take, w: divergence(take(LOGITS), take(TEACHER), w, 5.0, take(MASKS)),
        lambda k, n: slow.divergence(TEACHER[k, :n], LOGITS[k, :n], 5.0, members(MASKS[k])),
    ),
    "divergence, student first": (
        lambda take, w: divergence(take(LOGITS), take(TEACHER), w, 1.0, direction="student_first"),
        lambda k, n: slow.divergence(LOGITS[k, :n], TEACHER[k, :n], 1.0, list(range(OLD))),
    ),
    "FedMAX as released": (
        lambda take, w: fedmax(take(LOGITS), w),
        lambda k, n: slow.fedmax(LOGITS[k, :n], "uniform_first", "mean"),
    ),
    "FedMAX as DCID prints": (
        lambda take, w: fedmax(take(LOGITS), w, "softmax_first", "sum"),
        lambda k, n: slow.fedmax(LOGITS[k, :n], "softmax_first", "sum"),
    ),
    "feature distance, mean": (
        lambda take, w: feature_distance(take(LOGITS), take(LABELS), w),
        lambda k, n: slow.mean(((LOGITS[k, :n] - LABELS[k, :n]) ** 2).mean(axis=1)),
    ),
    "feature distance, sum": (
        lambda take, w: feature_distance(take(LOGITS), take(LABELS), w, "sum"),
        lambda k, n: slow.mean(((LOGITS[k, :n] - LABELS[k, :n]) ** 2).sum(axis=1)),
    ),
    "feature angle": (
        lambda take, w: feature_angle(take(LOGITS), take(LABELS), w),
        lambda k, n: slow.mean(1 - slow.cosine(LOGITS[k, i], LABELS[k, i]) for i in range(n)),
    ),
    "divergence, student first, on known classes": (
        lambda take, w: divergence(
            take(LOGITS), take(TEACHER), w, 1.0, take(MASKS), direction="student_first"
        ),
        lambda k, n: slow.divergence(LOGITS[k, :n], TEACHER[k, :n], 1.0, members(MASKS[k])),
    ),
    "feature balance": (
        lambda take, w: feature_balance(
            take(LOGITS), take(TARGETS), w, take(np.stack([scope(k) for k in range(AGENTS)]))
        ),
        lambda k, n: slow.feature_balance(LOGITS[k, :n], TARGETS[k, :n], members(scope(k))),
    ),
    "PODNet's margin": (
        lambda take, w: margin_loss(
            take(LOGITS), take(TARGETS), w, torch.tensor(0.6, dtype=torch.float64)
        ),
        lambda k, n: slow.mean(
            slow.local_similarity(LOGITS[k, i], TARGETS[k, i], 0.6) for i in range(n)
        ),
    ),
    "PODNet's pooled maps": (
        lambda take, w: pooled_distance(maps(take(LOGITS)), maps(take(LABELS)), w, "paper"),
        lambda k, n: slow.pooled_distance(
            maps(LOGITS)[k, :n].tolist(), maps(LABELS)[k, :n].tolist()
        ),
    ),
    "PODNet's pooled maps, its program": (
        lambda take, w: pooled_distance(maps(take(LOGITS)), maps(take(LABELS)), w, "code"),
        lambda k, n: slow.pooled_distance(
            maps(LOGITS)[k, :n].tolist(), maps(LABELS)[k, :n].tolist(), 1
        ),
    ),
    "binary cross-entropy": (
        lambda take, w: binary_cross_entropy(take(LOGITS), take(LABELS), w, take(FACTOR)),
        lambda k, n: slow.binary(LOGITS[k, :n], LABELS[k, :n], FACTOR[k, :n]),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_alone_it_is_its_definition(form):
    fast, reference = FORMS[form]
    for agent in range(AGENTS):
        value = fast(lambda array, agent=agent: t(array[agent]), torch.ones(ROWS).double())
        assert float(value) == pytest.approx(reference(agent, ROWS), rel=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_in_a_stack_each_agent_has_its_own_over_its_valid_rows(form):
    check_stack(FORMS[form], VALID, stack_weight())


@pytest.mark.parametrize("form", FORMS)
def test_its_gradient_is_that_of_finite_differences(form):
    check_gradient(FORMS[form], LOGITS, stack_weight())


def test_one_mask_serves_all_agents():
    mask = t(MASKS[0])
    each = distillation(t(LOGITS), t(TEACHER), stack_weight(), 2.0, mask.expand(AGENTS, OLD))
    assert torch.equal(distillation(t(LOGITS), t(TEACHER), stack_weight(), 2.0, mask), each)


def test_an_agent_that_knew_no_class_has_no_distillation_and_no_gradient():
    logits = t(LOGITS).requires_grad_()
    mask = torch.zeros(OLD, dtype=torch.bool)
    value = distillation(logits, t(TEACHER), stack_weight(), 2.0, mask)
    assert value.tolist() == [0] * AGENTS
    assert bool((torch.autograd.grad(value.sum(), logits)[0] == 0).all())


def test_the_teacher_gets_no_gradient():
    teacher = t(TEACHER).requires_grad_()
    value = divergence(t(LOGITS).requires_grad_(), teacher, stack_weight(), 1.0).sum()
    assert torch.autograd.grad(value, teacher, allow_unused=True) == (None,)


def test_labels_are_one_hot_with_the_old_models_sigmoids_first():
    labels = one_hot_with_old(t(TARGETS), CLASSES, t(TEACHER))
    for place in np.ndindex(AGENTS, ROWS):
        wanted = np.eye(CLASSES)[TARGETS[place]]
        wanted[:OLD] = 1 / (1 + np.exp(-TEACHER[place]))
        assert labels[place].tolist() == pytest.approx(wanted.tolist())
    assert one_hot_with_old(torch.tensor([1]), 3, None).tolist() == [[0, 1, 0]]
