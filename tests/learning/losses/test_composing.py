"""Losses from terms: the weighted sum of what the terms' functions say of one pass."""

from dataclasses import replace

import pytest
import torch

from learning.losses import composing
from learning.losses.balance import feature_balance
from learning.losses.composing import FIXED, ComposedLoss, Weighted
from learning.losses.cross_entropy import cross_entropy
from learning.losses.distillation import distillation, divergence
from learning.losses.ewc import ewc_penalty
from learning.losses.features import feature_angle, feature_distance
from learning.losses.fedmax import fedmax
from learning.losses.proximal import proximal
from learning.losses.terms import (
    CrossEntropy,
    Distillation,
    Divergence,
    EwcPenalty,
    FeatureAngle,
    FeatureBalance,
    FeatureDistance,
    FedMax,
    Proximal,
)
from learning.networks.mlp import Mlp
from learning.networks.network import Network
from learning.networks.torch_layers import Mode, forward
from learning.training.work import Batch
from tests.learning.training.agents import CLASSES, INPUTS, make_data, tensors

pytestmark = pytest.mark.torch

NETWORK = Network(Mlp(INPUTS, (8, 8)))
PARAMETERS, BUFFERS = tensors(NETWORK, torch.float64)
OLD, OLD_BUFFERS = tensors(NETWORK, torch.float64, seed=1)
DATA = make_data(9, torch.float64, 1)
ROWS = (torch.arange(9) < 4).double()
BATCH = Batch(DATA.inputs, DATA.targets, torch.ones(9).double(), {"is_old": ROWS})
MASK = torch.arange(CLASSES) < 2
PRIOR = torch.linspace(-1, 1, CLASSES)
FROZEN = {
    "teacher": {"parameters": OLD, "buffers": OLD_BUFFERS},
    "mask": MASK,
    "prior": PRIOR,
    "anchor": OLD,
    "fisher": {name: value.square() for name, value in OLD.items()},
}
OUT = forward(NETWORK, PARAMETERS, BUFFERS, DATA.inputs, Mode(training=True))
TAUGHT = forward(NETWORK, OLD, OLD_BUFFERS, DATA.inputs, Mode())
ALL = torch.ones(9).double()

WANTED = {
    CrossEntropy(): cross_entropy(OUT.logits, DATA.targets, ALL),
    CrossEntropy("mask"): cross_entropy(OUT.logits, DATA.targets, ALL, MASK),
    CrossEntropy(prior="prior"): cross_entropy(OUT.logits, DATA.targets, ALL, prior=PRIOR),
    CrossEntropy(rows="is_old"): cross_entropy(OUT.logits, DATA.targets, ROWS),
    Distillation("teacher", 3.0): distillation(OUT.logits, TAUGHT.logits, ALL, 3.0),
    Distillation("teacher", rows="is_old"): distillation(OUT.logits, TAUGHT.logits, ROWS),
    Divergence("teacher", 5.0, "mask"): divergence(OUT.logits, TAUGHT.logits, ALL, 5.0, MASK),
    FeatureDistance("teacher", "is_old"): feature_distance(OUT.features, TAUGHT.features, ROWS),
    FeatureBalance("mask"): feature_balance(OUT.features, DATA.targets, ALL, MASK),
    FeatureBalance("mask", "is_old"): feature_balance(OUT.features, DATA.targets, ROWS, MASK),
    FeatureAngle("teacher"): feature_angle(OUT.features, TAUGHT.features, ALL),
    FedMax(): fedmax(OUT.features, ALL),
    Proximal("anchor"): proximal(PARAMETERS, OLD),
    EwcPenalty("anchor", "fisher"): ewc_penalty(PARAMETERS, OLD, FROZEN["fisher"]),
}


def compute(loss, frozen=FROZEN, batch=BATCH, parameters=PARAMETERS):
    return loss(parameters, BUFFERS, frozen, {}, batch)


@pytest.mark.parametrize("term", WANTED, ids=repr)
def test_a_term_alone_is_its_function_of_the_pass(term):
    value, _ = compute(ComposedLoss(NETWORK, (Weighted(2.0, term),)))
    assert float(value) == pytest.approx(2 * float(WANTED[term]), rel=1e-12)
    assert float(value) > 0


def test_terms_are_added_with_their_factors():
    terms = tuple(Weighted(0.5 + place, term) for place, term in enumerate(WANTED))
    wanted = sum(part.factor * float(WANTED[part.term]) for part in terms)
    value, buffers = compute(ComposedLoss(NETWORK, terms))
    assert float(value) == pytest.approx(wanted, rel=1e-12)
    assert all(torch.allclose(buffers[name], OUT.buffers[name]) for name in BUFFERS)


def test_equal_losses_are_equal_values():
    one, two = (ComposedLoss(NETWORK, (Weighted(1.0, FedMax()),)) for _ in range(2))
    assert one == two
    assert one != replace(one, training="none")


def test_without_training_nothing_is_measured():
    value, buffers = compute(ComposedLoss(NETWORK, (Weighted(1.0, CrossEntropy()),), "none"))
    used = forward(NETWORK, PARAMETERS, BUFFERS, DATA.inputs, Mode())
    assert float(value) == pytest.approx(float(cross_entropy(used.logits, DATA.targets, ALL)))
    assert buffers == BUFFERS


def test_parts_that_are_not_trained_come_from_the_frozen():
    head = {name: value for name, value in PARAMETERS.items() if name.startswith("head")}
    rest = {name: value for name, value in PARAMETERS.items() if name not in head}
    loss = ComposedLoss(NETWORK, (Weighted(1.0, CrossEntropy()),))
    value, _ = compute(loss, {FIXED: rest}, parameters=head)
    assert float(value) == float(compute(loss)[0])


def test_a_teacher_is_asked_once_for_all_terms(monkeypatch):
    calls = []
    monkeypatch.setattr(
        composing, "forward_lazily", lambda *given: calls.append(given) or forward(*given)
    )
    terms = (Weighted(1.0, Distillation("teacher")), Weighted(1.0, FeatureAngle("teacher")))
    compute(ComposedLoss(NETWORK, terms))
    assert len(calls) == 2


def test_a_teacher_with_fewer_classes_is_compared_on_these():
    small = {name: v[:2] if name.startswith("head") else v for name, v in OLD.items()}
    frozen = {"teacher": {"parameters": small, "buffers": OLD_BUFFERS}}
    value, _ = compute(ComposedLoss(NETWORK, (Weighted(1.0, Distillation("teacher")),)), frozen)
    wanted = distillation(OUT.logits[:, :2], TAUGHT.logits[:, :2], ALL)
    assert float(value) == pytest.approx(float(wanted), rel=1e-12)
