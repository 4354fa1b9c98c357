"""The coordinator side of FBL: rows grow out of background, the old model is kept."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from fleetledger.methods.fbl.assignment import OLD_MODEL
from fleetledger.methods.fbl.coordinator import COORDINATOR
from fleetledger.methods.fbl.growth import first_rows
from fleetledger.methods.training.network_weights import encode_weights
from tests.methods.fbl.making import (
    ANT,
    BEE,
    CAT,
    DOG,
    EEL,
    EVERY,
    answers,
    asked,
    assignment,
    moved,
    sent,
)


def trained(of, *names, seed=1):
    """A file with rows for `names`, and its tensors."""
    arrays = moved(of, asked(of, *names), seed)
    return encode_weights(arrays, names), arrays


def shares(head, features):
    """Probabilities of background and classes."""
    scores = head["head.weight"] @ features + head["head.bias"]
    return np.exp(scores) / np.exp(scores).sum()


def test_the_first_head_is_drawn_and_later_rows_share_what_background_had():
    of = assignment()
    first = sent(of, asked(of))
    assert len(np.unique(first["head.bias"])) == 3
    weights, before = trained(of, ANT, BEE)
    after = sent(of, asked(of, *EVERY, weights=weights, rows=(ANT, BEE)))
    assert np.array_equal(after["head.weight"][1:3], before["head.weight"][1:3])
    assert np.array_equal(after["head.weight"][3:], before["head.weight"][[0, 0]])
    assert after["head.bias"][0] == pytest.approx(before["head.bias"][0] - log(3), rel=1e-6)
    features = np.random.default_rng(3).normal(size=before["head.weight"].shape[1])
    old, new = shares(before, features), shares(after, features)
    assert new[1:3] == pytest.approx(old[1:3])
    assert new[[0, 3, 4]].sum() == pytest.approx(old[0])


def test_seeded_rows_leave_background_as_it_is():
    of = assignment(growth="seeded")
    weights, before = trained(of, ANT, BEE)
    after = sent(of, asked(of, *EVERY, weights=weights, rows=(ANT, BEE)))
    assert np.array_equal(after["head.weight"][:3], before["head.weight"])
    assert not np.array_equal(after["head.weight"][3], before["head.weight"][0])
    alone = sent(of, asked(of, ANT, BEE, DOG, weights=weights, rows=(ANT, BEE)))
    assert np.array_equal(alone["head.weight"][3], after["head.weight"][4])


def test_a_renamed_class_keeps_its_row_and_rows_follow_the_order_of_classes():
    of = assignment()
    weights, before = trained(of, ANT, BEE)
    after = sent(of, asked(of, CAT, BEE, weights=weights, rows=(CAT, BEE)))
    assert np.array_equal(after["head.weight"], before["head.weight"])
    turned = sent(of, asked(of, BEE, ANT, weights=weights, rows=(ANT, BEE)))
    assert np.array_equal(turned["head.weight"], before["head.weight"][[0, 2, 1]])


def test_an_old_model_has_the_first_rows_of_the_head_by_their_present_names():
    of = assignment()
    _, before = trained(of, ANT, BEE)
    arrays, names = first_rows(before, (ANT, BEE), (EEL, BEE, CAT), {ANT: EEL})
    assert names == (EEL, BEE)
    assert np.array_equal(arrays["head.weight"], before["head.weight"])
    arrays, names = first_rows(before, (ANT, BEE), (ANT, CAT), {BEE: ANT})
    assert names == (ANT,)
    assert np.array_equal(arrays["head.bias"], before["head.bias"][:2])


def test_the_model_before_new_classes_is_kept_until_the_next_ones():
    of = assignment()
    question = asked(of)
    _, some = answers(of, question, 1)
    first = COORDINATOR.combine(of, question, some)
    assert OLD_MODEL not in first.extras
    question = asked(of, *EVERY, weights=first.weights, rows=(ANT, BEE), extras=first.extras)
    _, some = answers(of, question, 1)
    second = COORDINATOR.combine(of, question, some)
    assert second.extras[OLD_MODEL] == first.weights
    question = asked(of, *EVERY, weights=second.weights, rows=EVERY, extras=second.extras)
    _, some = answers(of, question, 1)
    third = COORDINATOR.combine(of, question, some)
    assert third.extras[OLD_MODEL] == first.weights
    five = (*EVERY, EEL)
    question = asked(of, *five, weights=third.weights, rows=EVERY, extras=third.extras)
    _, some = answers(of, question, 1)
    assert COORDINATOR.combine(of, question, some).extras[OLD_MODEL] == third.weights


def test_a_round_that_came_to_nothing_does_not_lose_the_model_before():
    """The second round of the stage is the first that counts."""
    of = assignment()
    weights, _ = trained(of, ANT, BEE)
    question = asked(of, *EVERY, weights=weights, rows=(ANT, BEE), round_of_stage=2)
    _, some = answers(of, question, 1)
    assert COORDINATOR.combine(of, question, some).extras[OLD_MODEL] == weights


def test_without_distillation_no_old_model_travels():
    of = assignment(preset="finetuning")
    weights, _ = trained(of, ANT, BEE)
    question = asked(of, *EVERY, weights=weights, rows=(ANT, BEE))
    _, some = answers(of, question, 1)
    assert not COORDINATOR.combine(of, question, some).extras


def test_what_is_exported_has_background_first():
    of = assignment()
    weights, before = trained(of, ANT, BEE)
    network, arrays, names = COORDINATOR.network_of(of, weights)
    assert network == of.network
    assert names == (ANT, BEE)
    assert len(arrays["head.weight"]) == 1 + len(names)
    assert np.array_equal(arrays["head.weight"], before["head.weight"])
