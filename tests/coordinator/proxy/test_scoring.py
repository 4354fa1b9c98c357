"""A score is made of an order, what the proxy remembers, and gradients."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.errors import ProxyError
from fleetledger.coordinator.proxy.decision import OrderFailed
from fleetledger.coordinator.proxy.records import Name, OrderScored
from fleetledger.coordinator.proxy.scoring import carried_out, score
from fleetledger.methods.lga import proxy
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.values import ClassName, Digest
from tests.coordinator.proxy.making import order, payload, weights
from tests.methods.lga.making import ANT, BEE

pytestmark = pytest.mark.torch


def points(outcome: OrderScored) -> float:
    newest = outcome.scored.answer.newest
    assert newest is not None
    return newest.score


def fresh(data: bytes, number: int = 1) -> dict[Name, bytes]:
    return {Name(PartKey(stage=number, part=number), Digest.of(data)): data}


def test_a_gpu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    file = weights()
    asked = order(file)
    failed = carried_out(asked, lambda: score(asked, None, {}, file, "cuda"))
    assert isinstance(failed, OrderFailed)
    assert (failed.action, "set cpu or auto" in failed.reason) == (asked.action, True)


def test_an_order_whose_stages_are_not_its_classes_is_refused() -> None:
    file = weights()
    with pytest.raises(ProxyError, match=r"^class_stages: 1 in the order, for 2 classes$"):
        score(order(file, class_stages=(1,)), None, {}, file)


def test_weights_other_than_the_promised_ones_are_not_scored() -> None:
    with pytest.raises(ProxyError, match=r"^weights: promised \w+, \w+ lie here$"):
        score(order(weights(1)), None, {}, weights(2))


def test_late_gradients_of_an_old_class_begin_no_task() -> None:
    file, new, late = weights(), payload(0, seed=1), payload(1, seed=2)
    state = score(order(file, class_stages=(1, 1)), None, fresh(new, 1), file).state
    asked = order(file, stage=2, class_stages=(1, 1))
    told = score(asked, state, fresh(late, 2), file).scored
    assert (told.task, told.answer.gradients, told.answer.shifted) == (1, 2, False)


def test_models_are_scored_where_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    file, data = weights(), payload(0, seed=1)
    seen: list[object] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    scored = proxy.score
    monkeypatch.setattr(
        proxy, "score", lambda rules, *rest: seen.append(rules.device) or scored(rules, *rest)
    )
    found, wanted = (score(order(file), None, fresh(data), file, name) for name in ("auto", "cpu"))
    assert seen == ["cpu", "cpu"]
    assert found.state == wanted.state


def test_pictures_of_a_class_count_under_its_new_name() -> None:
    file, data, fox = weights(), payload(0, seed=1), ClassName("fox")
    state = score(order(file), None, fresh(data), file).state
    renamed = order(file, class_names=(fox, BEE), aliases={ANT: fox})
    forgotten = order(file, class_names=(fox, BEE))
    assert points(score(order(file), state, {}, file)) > 0
    assert points(score(renamed, state, {}, file)) > 0
    assert points(score(forgotten, state, {}, file)) == 0
