"""LGA's weights and losses against the equations written out in plain Python, in both modes."""

from math import exp, log

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.balanced_terms import (
    BalancedCrossEntropy,
    BinaryCrossEntropy,
    GradientBalance,
    OldClassDistillation,
    SemanticDistillation,
)
from fleetledger.learning.losses.composition import Step
from fleetledger.learning.losses.gradient_balance import (
    balancing_weights,
    gradient_magnitudes,
    semantic_divergence,
)
from fleetledger.learning.networks.torch_layers import Outputs
from fleetledger.learning.training.work import Batch
from tests.learning.losses.slow import softmax

pytestmark = pytest.mark.torch

TASK_OF_CLASS = (0, 0, 0, 1, 1, 2, 2)
OLD, CLASSES, ROWS = 5, 7, 24
generator = np.random.default_rng(11)
LOGITS = 2 * generator.normal(size=(ROWS, CLASSES))
TEACHER = 2 * generator.normal(size=(ROWS, OLD))
TARGETS = generator.integers(0, CLASSES, ROWS)
DISJOINT = [[task == k for task in TASK_OF_CLASS] for k in range(3)]
STORED = {0, 1, 3}
"""Classes that the device has stored, of tasks 0 and 1."""


def released_groups(stored, past_tasks):
    """What the released program makes: unstored labels, and stored ones of tasks up to j."""
    unstored = [c not in stored for c in range(CLASSES)]
    upto = [
        [c in stored and TASK_OF_CLASS[c] < j for c in range(CLASSES)]
        for j in range(1, past_tasks + 1)
    ]
    return [unstored, *upto]


def sigmoid(value):
    return 1 / (1 + exp(-value))


def slow_weights(magnitudes, targets, groups, exponent):
    """Return w of each sample, by the loops of the equations."""
    powered = [float(v) ** exponent for v in magnitudes]
    weights = []
    for i, target in enumerate(targets):
        own = [group for group in groups if group[target]]
        if not own:
            weights.append(1.0)
            continue
        total = 0.0
        for group in own:
            inside = [powered[j] for j, other in enumerate(targets) if group[other]]
            total += powered[i] / (sum(inside) / len(inside))
        weights.append(total)
    return weights


def paper_magnitudes(logits, targets):
    return [
        abs(softmax(row)[target] - 1) for row, target in zip(logits.tolist(), targets, strict=True)
    ]


def released_magnitudes(logits, targets):
    return [
        abs(sigmoid(row[target]) - 1) for row, target in zip(logits.tolist(), targets, strict=True)
    ]


def soft_labels(activation):
    """Return Y: the old model's probabilities in its columns, then one-hot."""
    rows = []
    for old, target in zip(TEACHER.tolist(), TARGETS, strict=True):
        known = softmax(old) if activation == "softmax" else [sigmoid(score) for score in old]
        rows.append(known + [float(target == c) for c in range(OLD, CLASSES)])
    return rows


def t(values):
    return torch.tensor(np.array(values))


def step(groups=DISJOINT, exponent=0.5, logits=LOGITS):
    """Return a step of one agent whose network and teacher have these scores."""
    scores = logits if isinstance(logits, torch.Tensor) else t(logits)
    none = torch.zeros(ROWS, 0)
    made = Step(
        network=None,
        parameters={},
        frozen={"groups": t(groups), "exponent": t(exponent), "slices": t(DISJOINT)},
        extras={},
        batch=Batch(none, t(TARGETS), torch.ones(ROWS, dtype=torch.float64)),
        outputs=Outputs(none, scores, {}),
    )
    made._teachers["old"] = Outputs(none, t(TEACHER), {})
    return made


@pytest.mark.parametrize("exponent", [0.0, 0.4, 1.0])
def test_weights_of_the_paper(exponent):
    expected = slow_weights(paper_magnitudes(LOGITS, TARGETS), TARGETS, DISJOINT, exponent)
    found = GradientBalance().weights(step(exponent=exponent))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_the_mean_weight_of_each_task_is_one():
    weights = GradientBalance().weights(step(exponent=0.7)).numpy()
    for task in range(3):
        inside = [TASK_OF_CLASS[target] == task for target in TARGETS]
        assert weights[inside].mean() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("bounds", [None, (0.5, 5.0)])
def test_weights_of_the_released_program(bounds):
    groups = released_groups(STORED, past_tasks=2)
    magnitudes = released_magnitudes(LOGITS, TARGETS)
    expected = np.array(slow_weights(magnitudes, TARGETS, groups, 2 / 3))
    assert (expected > 1.5).any()  # a stored class of task 0 counts in both groups of past tasks
    balance = GradientBalance(activation="sigmoid", bounds=bounds)
    found = balance.weights(step(groups, 2 / 3)).numpy()
    np.testing.assert_allclose(found, expected if bounds is None else np.clip(expected, *bounds))


def test_a_device_that_has_stored_nothing_weighs_all_alike():
    magnitudes = gradient_magnitudes(t(LOGITS), t(TARGETS), "softmax")
    everything, rows = t([[True] * CLASSES]), torch.ones(ROWS, dtype=torch.float64)
    weights = balancing_weights(magnitudes, t(TARGETS), rows, everything, t(0.0))
    assert weights.tolist() == [1.0] * ROWS


def test_a_sample_of_no_group_and_a_group_without_error_weigh_one():
    magnitudes, targets = t([0.0, 0.0, 0.5]), t([0, 1, 2])
    rows = torch.ones(3, dtype=torch.float64)
    groups = t([[True, True, False]])
    assert balancing_weights(magnitudes, targets, rows, groups, t(1.0)).tolist() == [1.0, 1.0, 1.0]


def test_rows_that_pad_change_no_weight():
    magnitudes = gradient_magnitudes(t(LOGITS), t(TARGETS), "softmax")
    rows = torch.ones(ROWS, dtype=torch.float64)
    rows[10:] = 0
    groups, exponent = t(DISJOINT), t(0.5)
    padded = balancing_weights(magnitudes, t(TARGETS), rows, groups, exponent)[:10]
    alone = balancing_weights(magnitudes[:10], t(TARGETS[:10]), rows[:10], groups, exponent)
    np.testing.assert_allclose(padded.numpy(), alone.numpy(), rtol=1e-12)


def test_agents_of_a_stack_have_their_own_groups_and_exponents():
    groups = [DISJOINT, [[True] * CLASSES, [False] * CLASSES, [False] * CLASSES]]
    exponents, rows = [0.25, 1.0], torch.ones(2, ROWS, dtype=torch.float64)
    magnitudes = gradient_magnitudes(t([LOGITS, -LOGITS]), t([TARGETS, TARGETS]), "softmax")
    found = balancing_weights(magnitudes, t([TARGETS, TARGETS]), rows, t(groups), t(exponents))
    for agent in range(2):
        alone = balancing_weights(
            magnitudes[agent], t(TARGETS), rows[agent], t(groups[agent]), t(exponents[agent])
        )
        np.testing.assert_allclose(found[agent].numpy(), alone.numpy(), rtol=1e-12)


def test_balanced_cross_entropy_is_equation_5():
    weights = slow_weights(paper_magnitudes(LOGITS, TARGETS), TARGETS, DISJOINT, 0.5)
    losses = [-log(softmax(row)[y]) for row, y in zip(LOGITS.tolist(), TARGETS, strict=True)]
    expected = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / ROWS
    assert BalancedCrossEntropy(GradientBalance())(step()).item() == pytest.approx(expected)


def test_semantic_distillation_is_equation_6_on_raw_slices():
    weights = slow_weights(paper_magnitudes(LOGITS, TARGETS), TARGETS, DISJOINT, 0.5)
    total = 0.0
    for w, row, labels in zip(weights, LOGITS.tolist(), soft_labels("softmax"), strict=True):
        p = softmax(row)
        for task in DISJOINT:
            columns = [c for c in range(CLASSES) if task[c] and labels[c] > 0]
            total += w * sum(labels[c] * (log(labels[c]) - log(p[c])) for c in columns)
    found = SemanticDistillation("old", GradientBalance())(step())
    assert found.item() == pytest.approx(total / ROWS)


def test_slices_can_be_distributions_of_their_own():
    total = 0.0
    for row, labels in zip(LOGITS.tolist(), soft_labels("softmax"), strict=True):
        p = softmax(row)
        for task in DISJOINT:
            columns = [c for c in range(CLASSES) if task[c]]
            mine, theirs = sum(p[c] for c in columns), sum(labels[c] for c in columns)
            total += sum(
                labels[c] / theirs * log((labels[c] / theirs) / (p[c] / mine))
                for c in columns
                if labels[c] > 0
            )
    found = SemanticDistillation("old", slices="slices")(step())
    assert found.item() == pytest.approx(total / ROWS)


@pytest.mark.parametrize("teacher", [None, "old"])
def test_the_released_losses_are_weighed_binary_cross_entropies(teacher):
    groups = released_groups(STORED, past_tasks=2)
    weights = slow_weights(released_magnitudes(LOGITS, TARGETS), TARGETS, groups, 2 / 3)
    labels = (
        soft_labels("sigmoid")
        if teacher
        else [[float(y == c) for c in range(CLASSES)] for y in TARGETS]
    )
    total = 0.0
    for w, row, label in zip(weights, LOGITS.tolist(), labels, strict=True):
        terms = [
            -(y * log(sigmoid(z)) + (1 - y) * log(1 - sigmoid(z)))
            for z, y in zip(row, label, strict=True)
        ]
        total += w * sum(terms) / CLASSES
    balance = GradientBalance(activation="sigmoid")
    found = BinaryCrossEntropy(balance, teacher)(step(groups, 2 / 3))
    assert found.item() == pytest.approx(total / ROWS)


def test_the_plain_distillation_looks_at_old_classes_alone():
    total = 0.0
    for row, old in zip(LOGITS.tolist(), TEACHER.tolist(), strict=True):
        for z, other in zip(row, old, strict=False):
            q = sigmoid(other)
            total -= q * log(sigmoid(z)) + (1 - q) * log(1 - sigmoid(z))
    assert OldClassDistillation("old")(step()).item() == pytest.approx(total / ROWS / OLD)


@pytest.mark.parametrize(
    "term",
    [
        BalancedCrossEntropy(GradientBalance()),
        SemanticDistillation("old", GradientBalance()),
        SemanticDistillation("old", GradientBalance(), "slices"),
        BinaryCrossEntropy(GradientBalance(activation="sigmoid"), "old"),
        OldClassDistillation("old"),
    ],
)
def test_gradients_flow_through_the_loss_and_not_through_the_weights(term):
    """By finite differences with the weights held as they are."""
    scores = t(LOGITS).requires_grad_()
    term(step(logits=scores)).backward()
    fixed = {}

    def value(logits):
        made = step(logits=t(logits))
        balance = getattr(term, "balance", None)
        if balance is not None:
            fixed.setdefault("w", balance.weights(step()))
            held = type("Held", (), {"__call__": lambda _self, _step: fixed["w"]})()
            return type(term)(**{**vars(term), "balance": held})(made).item()
        return term(made).item()

    for row, column in [(0, 0), (3, 2), (7, OLD), (11, CLASSES - 1)]:
        moved = [LOGITS.copy(), LOGITS.copy()]
        moved[0][row, column] += 1e-6
        moved[1][row, column] -= 1e-6
        slope = (value(moved[0]) - value(moved[1])) / 2e-6
        assert scores.grad[row, column].item() == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_a_label_of_probability_zero_and_a_score_far_below_stay_finite():
    logits = t([[0.0, -2000.0, 3.0]])
    labels = t([[0.5, 0.0, 1.0]])
    assert torch.isfinite(semantic_divergence(logits, labels)).all()
