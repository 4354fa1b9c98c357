"""Renamed classes change nothing but names, and merged ones lose nothing but a row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from fleetledger.methods.rounds.assignment import FISHER, OLD_MODEL, RoundsAssignment
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.fisher import decode_fisher, encode_fisher, unit_zeros
from fleetledger.methods.rounds.memory import Memory, read_memory
from fleetledger.methods.rounds.messages import frame_of, received
from fleetledger.methods.training.exchange import FitInstruction, RoundConfig
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.making import given, relabelled
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

PUSS = ClassName("puss")
PRESETS = ("fedavg-exemplars", "fed-lwf", "flwf-2t", "fed-ewc", "icarl")
Names = Mapping[ClassName, ClassName]


def fleet_after_cat_and_dog(of: RoundsAssignment) -> tuple[bytes, dict[str, bytes], bytes | None]:
    """The fleet's weights, its extras and a device's memory after a stage."""
    old = images(24, CAT, DOG)
    first = learn(of, order(of, round_of_stage=2), old)
    made = COORDINATOR.combine(of, asked(of, round_of_stage=2), [given(first.payload, 24)])
    weights, extras = made.weights, dict(made.extras)
    if FISHER in of.closing_phases:
        told = {"phase": FISHER, "round_of_stage": 3, "rounds_of_stage": 3}
        known = {"weights": weights, "weights_class_names": (CAT, DOG)}
        measured = learn(of, order(of, **told, **known), old, first.memory)
        question = asked(of, weights=weights, rows=(CAT, DOG), **told)
        made = COORDINATOR.combine(of, question, [given(measured.payload, 24)])
        extras = dict(made.extras)
    return weights, extras, first.memory


def next_stage(
    weights: bytes, extras: dict[str, bytes], of: RoundsAssignment, cat: Names
) -> FitInstruction:
    """Owls come; cats may have another name by now."""
    now = cat.get(CAT, CAT)
    return order(
        of,
        now,
        DOG,
        OWL,
        stage=2,
        task=(OWL,),
        weights=weights,
        weights_class_names=(now, DOG),
        extras=extras,
        aliases=dict(cat),
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_a_device_learns_the_same_under_another_name(preset: str) -> None:
    of = assignment(preset=preset, exemplars=8, scope="seen")
    weights, extras, memory = fleet_after_cat_and_dog(of)
    data = images(24, CAT, DOG, OWL)
    answers = [
        learn(of, next_stage(weights, extras, of, names), relabelled(data, names), memory)
        for names in ({}, {CAT: PUSS})
    ]
    assert answers[0].payload == answers[1].payload
    assert answers[1].samples.get(PUSS) == answers[0].samples.get(CAT)
    assert answers[1].stored_samples == answers[0].stored_samples


@pytest.mark.parametrize("part", ["old_model", "past_model", "received_model"])
def test_a_teacher_has_one_row_of_merged_classes(part: str) -> None:
    of = assignment(preset="flwf-2t", distillation=1.0)
    weights, extras, memory = fleet_after_cat_and_dog(of)
    extras[OLD_MODEL] = weights
    asks = order(
        of,
        CAT,
        OWL,
        stage=2,
        task=(OWL,),
        weights=weights,
        weights_class_names=(CAT, CAT),
        extras=extras,
        aliases={DOG: CAT},
    )
    work = begun(of, asks, relabelled(images(24, CAT, DOG, OWL), {DOG: CAT}), memory).work
    rows = work.frozen[part]["parameters"]["head.weight"].numpy()
    arrays, _ = decode_weights(weights, of.network)
    assert rows.shape[0] == 1
    if part != "past_model":
        assert np.array_equal(rows, arrays["head.weight"][:1])


def test_exemplars_and_the_task_follow_and_merged_lists_alternate() -> None:
    one, two, three = (Digest.of(text) for text in (b"1", b"2", b"3"))
    memory = Memory(stage=1, task=(CAT, DOG), exemplars={CAT: (one, two), DOG: (three,)})
    renamed = memory.renamed({CAT: PUSS})
    assert renamed.task == (DOG, PUSS)
    assert renamed.exemplars == {PUSS: (one, two), DOG: (three,)}
    merged = memory.renamed({CAT: DOG})
    assert merged.task == (DOG,)
    assert merged.exemplars == {DOG: (one, three, two)}
    assert read_memory(merged.write(), assignment().network) == merged


@pytest.mark.parametrize(
    ("aliases", "names", "places"),
    [({}, (CAT, DOG, OWL), [0, 1]), ({CAT: PUSS}, (PUSS, DOG, OWL), [0, 1])],
)
def test_importance_of_earlier_stages_counts_under_another_name(
    aliases: Names, names: tuple[ClassName, ...], places: list[int]
) -> None:
    found = consolidated_rows(aliases, names)
    # alpha = 2 / 3 of 0.75, and nothing new
    assert np.allclose(found[places], 0.5, atol=1e-6)
    assert np.allclose(found[2], 0.0)


def test_importance_of_merged_classes_is_that_of_the_first() -> None:
    found = consolidated_rows({DOG: CAT}, (CAT, OWL))
    assert np.allclose(found[0], 0.5 * 0.75, atol=1e-6)
    assert np.allclose(found[1], 0.0)


def consolidated_rows(aliases: Names, names: tuple[ClassName, ...]) -> np.ndarray:
    """Rows of the head in the diagonal: 0.75 for cat and dog, then 0 for everything."""
    of = assignment(preset="fed-ewc")
    zeros = unit_zeros(sent(of, asked(of, CAT, DOG)))
    old = {name: np.full_like(array, 0.75) for name, array in zeros.items()}
    extras = {FISHER: encode_fisher(old, (CAT, DOG))}
    told = {"phase": FISHER, "round_of_stage": 2, "extras": extras, "aliases": aliases}
    question = asked(of, *names, **told)
    nothing = unit_zeros(sent(of, question))
    made = COORDINATOR.combine(of, question, [given(answer(of, question, nothing))])
    shapes = {name: array.shape for name, array in nothing.items()}
    fisher, rows = decode_fisher(made.extras[FISHER], shapes)
    assert rows == names
    return fisher["head.weight"]


def test_the_weights_keep_the_row_of_a_renamed_class() -> None:
    of = assignment()
    first = asked(of, CAT, DOG)
    weights = encode_weights(moved(of, first, 1), (CAT, DOG))
    later = asked(of, PUSS, DOG, OWL, weights=weights, weights_class_names=(PUSS, DOG))
    payload = answer_of_nothing_moved(of, later)
    made = COORDINATOR.combine(of, later, [given(payload)])
    before, _ = decode_weights(weights, of.network)
    after, names = decode_weights(made.weights, of.network)
    assert names == (PUSS, DOG, OWL)
    assert np.allclose(after["head.weight"][:2], before["head.weight"], atol=1e-4)


def answer_of_nothing_moved(of: RoundsAssignment, question: RoundConfig) -> bytes:
    """An answer that is what was sent."""
    arrays = received(of, question.weights, question.weights_class_names, question.class_names)
    return frame_of(of, arrays, "train").encode(arrays)
