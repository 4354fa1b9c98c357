"""A score is made of an order, what the proxy remembers, and gradients."""

from __future__ import annotations

import pytest

from coordinator.proxy.inputs import ScoringFinished
from coordinator.proxy.records import Name, OrderScored
from coordinator.proxy.scoring import Fresh, score
from schemas.contributions import PartKey
from schemas.values import ClassName, Digest
from tests.coordinator.proxy.making import order, payload, weights
from tests.methods.lga.making import ANT, BEE

pytestmark = pytest.mark.torch


def change(outcome: object) -> OrderScored:
    assert isinstance(outcome, ScoringFinished)
    return outcome.change


def points(outcome: object) -> float:
    newest = change(outcome).scored.answer.newest
    assert newest is not None
    return newest.score


def test_pictures_of_a_class_count_under_its_new_name() -> None:
    file, data, fox = weights(), payload(0, seed=1), ClassName("fox")
    fresh = Fresh(Name(PartKey(stage=1, part=1), Digest.of(data)), data)
    state = change(score(order(file), None, [fresh], file)).state
    renamed = order(file, class_names=(fox, BEE), aliases={ANT: fox})
    forgotten = order(file, class_names=(fox, BEE))
    assert points(score(order(file), state, [], file)) > 0
    assert points(score(renamed, state, [], file)) > 0
    assert points(score(forgotten, state, [], file)) == 0
