"""Rehearsal methods beside LGA as presets: their losses, and heads that are corrected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.torch_layers import Mode, Tensors, forward
from fleetledger.learning.numerics.head_correction import aligned, fitted_bias
from fleetledger.learning.training.work import Batch
from fleetledger.methods.errors import MethodError
from fleetledger.methods.rounds.assignment import CALIBRATE, OLD_MODEL, RoundsAssignment
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.device import DEVICE
from fleetledger.methods.training.exchange import FitInstruction, LocalData
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from tests.learning.losses import slow
from tests.methods.making import given
from tests.methods.rounds.making import (
    CAT,
    DOG,
    OWL,
    answer,
    asked,
    assignment,
    images,
    moved,
    sent,
)
from tests.methods.rounds.training import PICTURES, begun, learn, order

pytestmark = pytest.mark.torch

NAMES = (CAT, DOG, OWL)
BOTH = images(24, CAT, DOG, OWL)


def joined(*parts: LocalData) -> LocalData:
    return LocalData(
        np.concatenate([part.inputs for part in parts]),
        sum((part.class_names for part in parts), ()),
        sum((part.digests for part in parts), ()),
    )


def after_one_stage(of: RoundsAssignment) -> tuple[FitInstruction, bytes | None]:
    """The first order of a second stage, which brings owls, and what the device remembers."""
    first = learn(of, order(of), BOTH)
    weights = encode_weights(moved(of, asked(of), 7), (CAT, DOG))
    asks = order(
        of,
        *NAMES,
        stage=2,
        task=(OWL,),
        weights=weights,
        extras={OLD_MODEL: weights},
        weights_class_names=(CAT, DOG),
    )
    return replace(asks, class_stages=(1, 1, 2)), first.memory


def calibrating(of: RoundsAssignment) -> tuple[FitInstruction, bytes | None]:
    """The order of the second stage's last phase."""
    asks, memory = after_one_stage(of)
    trained = learn(of, asks, BOTH, memory)
    order_ = asks.round.model_copy(update={"phase": CALIBRATE, "number": 2, "round_of_stage": 2})
    return replace(asks, round=order_), trained.memory


def loss_and_outputs(of: RoundsAssignment) -> tuple[float, np.ndarray, np.ndarray, list[int]]:
    """The loss of all samples in one batch, scores of network and old model, and the targets."""
    asks, memory = after_one_stage(of)
    work = begun(of, asks, BOTH, memory).work
    assert work.pictures is not None
    inputs, targets = work.pictures.on(torch.device("cpu"))(work.data.inputs), work.data.targets
    batch = Batch(inputs, targets, torch.ones(len(targets)))
    loss, _ = work.loss(work.parameters, work.buffers, work.frozen, {}, batch)
    old = work.frozen["old_model"]
    scores = [
        scores_of(of, inputs, work.parameters, work.buffers, training=True),
        scores_of(of, inputs, old["parameters"], old["buffers"], training=False),
    ]
    return float(loss.detach()), *scores, targets.tolist()


def scores_of(
    of: RoundsAssignment, inputs: Tensor, parameters: Tensors, buffers: Tensors, *, training: bool
) -> np.ndarray:
    made = forward(of.network, parameters, buffers, inputs, Mode(training=training))
    return made.logits.detach().numpy().astype(float)


def test_ss_il_separates_the_softmax_and_distils_each_task_by_itself() -> None:
    of = assignment(preset="ss-il", exemplars=8, batch=64)
    loss, scores, old, targets = loss_and_outputs(of)
    assert set(targets) == {0, 1, 2}
    sides = [[0, 1], [0, 1], [2]]
    apart = slow.mean(
        -np.log(slow.softmax([row[c] for c in sides[y]])[sides[y].index(y)])
        for row, y in zip(scores, targets, strict=True)
    )
    kept = slow.divergence(old, scores, 2.0, [0, 1])
    assert loss == pytest.approx(apart + kept, rel=1e-5)


def test_ss_il_adds_the_distillation_of_every_earlier_stage() -> None:
    of = assignment(preset="ss-il", exemplars=8, batch=64)
    asks, memory = after_one_stage(of)
    asks = replace(asks, class_stages=(1, 2, 3), stage=3)
    terms = begun(of, asks, BOTH, memory).work
    assert [each.term.classes for each in terms.loss.terms[1:]] == ["task 1", "task 2"]
    assert terms.frozen["task 1"].tolist() == [True, False]
    assert terms.frozen["task 2"].tolist() == [False, True]


def test_wa_mixes_by_the_share_of_old_classes() -> None:
    of = assignment(preset="wa", exemplars=8, batch=64)
    loss, scores, old, targets = loss_and_outputs(of)
    plain = slow.cross_entropy(scores, targets, [0, 1, 2])
    kept = slow.distillation(scores, old, 2.0, [0, 1])
    assert loss == pytest.approx(plain / 3 + 2 / 3 * kept, rel=1e-5)


def test_where_classes_return_alone_the_cross_entropy_keeps_its_share() -> None:
    of = assignment(preset="wa", exemplars=8)
    asks, memory = after_one_stage(of)
    again = replace(asks, stage=3, stage_class_names=(CAT,))
    terms = begun(of, again, joined(BOTH, images(4, CAT, seed=5)), memory).work.loss.terms
    assert [each.factor for each in terms] == pytest.approx([1 / 3, 2 / 3])


def test_an_order_without_stages_of_classes_is_refused() -> None:
    of = assignment(preset="ss-il", exemplars=8)
    asks, memory = after_one_stage(of)
    with pytest.raises(MethodError, match="class_stages: 0 for 3 classes, and the loss"):
        begun(of, replace(asks, class_stages=()), BOTH, memory)


def test_the_head_is_aligned_once_the_stage_ends_and_so_is_the_old_model() -> None:
    of = assignment(preset="fedavg-aligned")
    old = encode_weights(sent(of, asked(of)), (CAT, DOG))
    for number, ends in ((1, False), (2, True)):
        asks = asked(of, *NAMES, round_of_stage=number, extras={OLD_MODEL: old})
        mean = COORDINATOR.combine(of, asks, [given(answer(of, asks, moved(of, asks, 3)))])
        plain = replace_calibration(of)
        whole, _ = decode_weights(mean.weights, of.network)
        bare, _ = decode_weights(
            COORDINATOR.combine(plain, asks, [given(answer(of, asks, moved(of, asks, 3)))]).weights,
            of.network,
        )
        rows = bare["head.weight"]
        assert np.array_equal(whole["head.weight"], aligned(rows, 2) if ends else rows)
        assert np.array_equal(whole["head.bias"], bare["head.bias"])
        assert (mean.extras[OLD_MODEL] == mean.weights) == ends


def replace_calibration(of: RoundsAssignment) -> RoundsAssignment:
    settings = of.settings.model_copy(update={"calibration": "none"})
    return of.model_copy(update={"settings": settings})


def test_in_the_first_stage_nothing_is_aligned() -> None:
    of = assignment(preset="fedavg-aligned")
    asks = asked(of, round_of_stage=2)
    made = COORDINATOR.combine(of, asks, [given(answer(of, asks, moved(of, asks, 3)))])
    weights, _ = decode_weights(made.weights, of.network)
    assert weights["head.weight"] == pytest.approx(moved(of, asks, 3)["head.weight"], abs=1e-5)


def test_a_cosine_head_has_no_lengths_to_align() -> None:
    with pytest.raises(MethodError, match="calibration: 'align' changes lengths"):
        assignment(preset="wa", head="cosine")


def test_bic_holds_exemplars_and_as_many_new_samples_out_of_training() -> None:
    of = assignment(preset="bic", exemplars=8)
    asks, memory = after_one_stage(of)
    trained = begun(of, asks, BOTH, memory)
    last, memory = calibrating(of)
    held = DEVICE.begin(of, last, BOTH, memory, PICTURES)
    assert trained.samples == {CAT: 3, DOG: 3, OWL: 7}
    assert held is not None
    assert held.samples == {CAT: 1, DOG: 1, OWL: 1}
    assert held.work is None
    rows = {tuple(row) for row in trained.state.work.data.inputs.flatten(1).tolist()}
    assert not rows & {tuple(row) for row in held.state.work.data.inputs.flatten(1).tolist()}


def test_bic_corrects_the_scores_of_new_classes_by_the_fleets_mean_of_two_numbers() -> None:
    of = assignment(preset="bic", exemplars=8)
    assert of.closing_phases == (CALIBRATE,)
    last, memory = calibrating(of)
    held = DEVICE.begin(of, last, BOTH, memory, PICTURES)
    assert held is not None
    made = DEVICE.measured(of, held)
    work = held.state.work
    inputs = PICTURES.on(torch.device("cpu"))(work.data.inputs)
    scores = scores_of(of, inputs, work.parameters, work.buffers, training=False)
    alpha, beta = fitted_bias(scores, work.data.targets.numpy(), 2)
    assert (alpha, beta) != (1.0, 0.0)
    asks = asked(
        of,
        *NAMES,
        phase=CALIBRATE,
        round_of_stage=2,
        weights=last.weights,
        rows=(CAT, DOG),
        extras=dict(last.extras),
    )
    after = COORDINATOR.combine(of, asks, [given(made.payload, 3)])
    weights, _ = decode_weights(after.weights, of.network)
    changed = scores_of(of, inputs, *to_tensors(weights), training=False)
    assert changed[:, :2] == pytest.approx(scores[:, :2], abs=1e-6)
    assert changed[:, 2] == pytest.approx(alpha * scores[:, 2] + beta, abs=1e-5)
    assert after.extras[OLD_MODEL] == after.weights


def test_in_a_first_stage_nothing_is_corrected() -> None:
    of = assignment(preset="bic", exemplars=8)
    asks = order(of, phase=CALIBRATE)
    job = DEVICE.begin(of, asks, BOTH, None, PICTURES)
    assert job is not None
    answered = DEVICE.measured(of, job)
    question = asked(of, phase=CALIBRATE, round_of_stage=2)
    made = COORDINATOR.combine(of, question, [given(answered.payload, 16)])
    assert made.weights == encode_weights(sent(of, question), (CAT, DOG))


@pytest.mark.parametrize("head", ["linear", "cosine", "hidden"])
def test_a_refit_trains_the_head_alone_on_as_many_samples_of_each_class(head: str) -> None:
    of = assignment(preset="fedavg-refit", exemplars=9, refit_rate=0.1, head=head)
    last, memory = calibrating(of)
    made = learn(of, last, BOTH, memory)
    assert made.samples == {CAT: 3, DOG: 3, OWL: 3}
    asks = asked(of, *NAMES, phase=CALIBRATE, weights=last.weights, rows=(CAT, DOG))
    before = sent(of, asks)
    after, _ = decode_weights(
        COORDINATOR.combine(of, asks, [given(made.payload)]).weights, of.network
    )
    for name, array in after.items():
        assert name.startswith("head.") or np.array_equal(array, before[name])
    assert not np.array_equal(after["head.weight"], before["head.weight"])


def test_podnet_keeps_pooled_maps_and_directions_beside_a_margin() -> None:
    of = assignment(preset="podnet", exemplars=8, batch=64, network="resnet8_signed")
    asks, memory = after_one_stage(of)
    work = begun(of, asks, BOTH, memory).work
    inputs, targets = PICTURES.on(torch.device("cpu"))(work.data.inputs), work.data.targets
    batch = Batch(inputs, targets, torch.ones(len(targets)))
    loss, _ = work.loss(work.parameters, work.buffers, work.frozen, {}, batch)
    watched = frozenset({"layer1.0", "layer2.0", "layer3.0"})
    now = forward(of.network, work.parameters, work.buffers, inputs, Mode(True, inner=watched))
    kept = work.frozen["old_model"]
    old = forward(of.network, kept["parameters"], kept["buffers"], inputs, Mode(inner=watched))
    eta = float(work.parameters["head.scale"])
    margin = slow.mean(
        slow.local_similarity(row, y, 0.6 * eta)
        for row, y in zip(now.logits.tolist(), targets.tolist(), strict=True)
    )
    maps = slow.mean(
        slow.pooled_distance(now.inner[name].tolist(), old.inner[name].tolist())
        for name in sorted(watched)
    )
    flat = slow.mean(
        sum((a - b) ** 2 for a, b in zip(slow.unit(f), slow.unit(g), strict=True))
        for f, g in zip(now.features.tolist(), old.features.tolist(), strict=True)
    )
    root = (3 / 1) ** 0.5
    assert float(loss.detach()) == pytest.approx(margin + root * (3 * maps + flat), rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"preset": "bic", "exemplars": 0}, "calibration: 'bias' looks at exemplars"),
        ({"preset": "bic", "head": "cosine"}, "calibration: 'bias' changes lengths"),
        ({"margin": 0.5}, "margin: 0.5 is one of cosines"),
        ({"preset": "bic", "privacy": {"clip": 1.0}}, "calibration: 'bias' is answered without"),
        ({"preset": "fedavg-refit", "trained": "body"}, "trained: 'body' leaves the head"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict, told: str) -> None:
    with pytest.raises(MethodError, match=told):
        assignment(**changes)
