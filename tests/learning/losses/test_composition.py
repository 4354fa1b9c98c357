"""Losses from terms: the weighted sum of what the terms' functions say of one pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fleetledger.learning.losses import composition
from fleetledger.learning.losses.balance import feature_balance
from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.cross_entropy import cross_entropy
from fleetledger.learning.losses.distillation import distillation, divergence
from fleetledger.learning.losses.ewc import ewc_penalty
from fleetledger.learning.losses.features import feature_angle, feature_distance
from fleetledger.learning.losses.fedmax import fedmax
from fleetledger.learning.losses.proximal import proximal
from fleetledger.learning.losses.terms import (
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
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.torch_layers import Mode, forward
from fleetledger.learning.training.work import Batch
from tests.learning.losses import slow
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
        composition, "forward_lazily", lambda *given: calls.append(given) or forward(*given)
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


HIDDEN = Network(Mlp(INPUTS, (8, 8)), "hidden")


def seen_by_the_rows(parameters, inputs):
    """Behind the hidden layer in use, number by number: norm by running statistics, then relu."""
    features = forward(HIDDEN, parameters, tensors(HIDDEN, torch.float64)[1], inputs, Mode())
    layer = {name: value.numpy() for name, value in parameters.items() if "head" in name}
    made = features.features.numpy() @ layer["head.hidden.weight"].T + layer["head.hidden.bias"]
    normed = layer["head.norm.weight"] * made / np.sqrt(1 + 1e-5) + layer["head.norm.bias"]
    return np.maximum(normed, 0)


def test_fedmax_sees_the_inputs_of_the_last_layer_behind_a_hidden_one_too():
    parameters, buffers = tensors(HIDDEN, torch.float64)
    given = {name: value.requires_grad_() for name, value in parameters.items()}
    loss = ComposedLoss(HIDDEN, (Weighted(1.0, FedMax("softmax_first", "sum")),), "none")
    value, _ = loss(given, buffers, {}, {}, BATCH)
    still = {name: value.detach() for name, value in parameters.items()}
    seen = seen_by_the_rows(still, DATA.inputs)
    assert seen.shape == (9, 128)
    wanted = slow.fedmax(seen, "softmax_first", "sum")
    assert float(value.detach()) == pytest.approx(wanted, rel=1e-9)
    value.backward()
    assert bool(given["head.hidden.weight"].grad.abs().sum() > 0)
    assert given["head.weight"].grad is None


def test_a_hidden_layer_is_drawn_and_measured_once_for_all_terms():
    parameters, buffers = tensors(HIDDEN, torch.float64)
    drawn = []

    def dropout(values, rate, layer):
        drawn.append(layer)
        return values * (1 - rate)

    batch = replace(BATCH, dropout=dropout)
    terms = (Weighted(1.0, FedMax()), Weighted(1.0, CrossEntropy()))
    _, together = ComposedLoss(HIDDEN, terms)(parameters, buffers, {}, {}, batch)
    assert len(drawn) == 1
    _, alone = ComposedLoss(HIDDEN, terms[:1])(parameters, buffers, {}, {}, batch)
    assert all(torch.equal(together[name], alone[name]) for name in buffers)


def test_in_a_stack_each_agent_has_its_own_hidden_layer():
    models = [tensors(HIDDEN, torch.float64, seed)[0] for seed in (0, 1)]
    buffers = tensors(HIDDEN, torch.float64)[1]
    loss = ComposedLoss(HIDDEN, (Weighted(1.0, FedMax()),), "none")
    one_by_one = [float(loss(model, buffers, {}, {}, BATCH)[0]) for model in models]
    stacked = {name: torch.stack([model[name] for model in models]) for name in models[0]}
    inputs = torch.stack([DATA.inputs, DATA.inputs])
    batch = Batch(inputs, DATA.targets.expand(2, -1), torch.ones(2, 9).double())
    values, _ = loss(stacked, buffers, {}, {}, batch)
    assert values.tolist() == pytest.approx(one_by_one, rel=1e-9)
    assert one_by_one[0] != one_by_one[1]
