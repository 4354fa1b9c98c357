"""A score is made of an order, what the proxy remembers, and gradients."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.proxy.inputs import OrderFailed, ScoringFinished
from fleetledger.coordinator.proxy.records import Name, OrderScored
from fleetledger.coordinator.proxy.scoring import Fresh, score
from fleetledger.methods.lga import proxy
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.values import ClassName, Digest
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


def test_a_gpu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    file = weights()
    failed = score(order(file), None, [], file, "cuda")
    assert isinstance(failed, OrderFailed)
    assert "set cpu or auto" in failed.reason


def test_an_order_whose_stages_are_not_its_classes_is_refused() -> None:
    file = weights()
    failed = score(order(file, class_stages=(1,)), None, [], file)
    assert isinstance(failed, OrderFailed)
    assert failed.reason == "class_stages: 1 in the order, for 2 classes"


def test_late_gradients_of_an_old_class_begin_no_task() -> None:
    file, new, late = weights(), payload(0, seed=1), payload(1, seed=2)
    first, second = (
        Fresh(Name(PartKey(stage=stage, part=stage), Digest.of(data)), data)
        for stage, data in ((1, new), (2, late))
    )
    state = change(score(order(file, class_stages=(1, 1)), None, [first], file)).state
    asked = order(file, stage=2, class_stages=(1, 1))
    told = change(score(asked, state, [second], file)).scored
    assert (told.task, told.answer.gradients, told.answer.shifted) == (1, 2, False)


def test_models_are_scored_where_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    file, data, seen = weights(), payload(0, seed=1), []
    fresh = Fresh(Name(PartKey(stage=1, part=1), Digest.of(data)), data)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    scored = proxy.score
    monkeypatch.setattr(
        proxy, "score", lambda rules, *rest: seen.append(rules.device) or scored(rules, *rest)
    )
    found, wanted = (score(order(file), None, [fresh], file, name) for name in ("auto", "cpu"))
    assert seen == ["cpu", "cpu"]
    assert change(found).state == change(wanted).state


def test_pictures_of_a_class_count_under_its_new_name() -> None:
    file, data, fox = weights(), payload(0, seed=1), ClassName("fox")
    fresh = Fresh(Name(PartKey(stage=1, part=1), Digest.of(data)), data)
    state = change(score(order(file), None, [fresh], file)).state
    renamed = order(file, class_names=(fox, BEE), aliases={ANT: fox})
    forgotten = order(file, class_names=(fox, BEE))
    assert points(score(order(file), state, [], file)) > 0
    assert points(score(renamed, state, [], file)) > 0
    assert points(score(forgotten, state, [], file)) == 0
