"""Rehearsal methods beside LGA as presets: their losses, and heads that are corrected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fleetledger.learning.networks.torch_layers import Mode, Tensors, forward
from fleetledger.learning.numerics.head_correction import aligned
from fleetledger.learning.training.work import Batch
from fleetledger.methods.errors import MethodError
from fleetledger.methods.rounds.assignment import OLD_MODEL, RoundsAssignment
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.training.exchange import FitInstruction
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
from tests.methods.rounds.training import begun, learn, order

pytestmark = pytest.mark.torch

NAMES = (CAT, DOG, OWL)
BOTH = images(24, CAT, DOG, OWL)


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


def test_an_order_without_stages_of_classes_is_refused() -> None:
    of = assignment(preset="wa", exemplars=8)
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


def test_settings_that_nobody_changed_are_not_written() -> None:
    written = assignment().settings.model_dump()
    assert not {"mixing", "task_distillation", "calibration"} & set(written)
    assert assignment(preset="wa").settings.model_dump()["calibration"] == "align"
