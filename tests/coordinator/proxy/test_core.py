"""The rules of a proxy, one by one, without store, broker or torch."""

from __future__ import annotations

from typing import Any

import pytest

from fleetledger.coordinator.proxy import core as rules
from fleetledger.coordinator.proxy import decision as inputs
from fleetledger.coordinator.proxy.core import ProxyCore
from fleetledger.coordinator.proxy.decision import Check, ProxyFetch, Request, Score, Tell
from fleetledger.coordinator.proxy.records import (
    GradientsStored,
    Name,
    OrderScored,
    ProxyRecords,
    ScoredOrder,
)
from fleetledger.coordinator.proxy.settings import MEGABYTE, Limits
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.envelope import PROXY
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proxy import PrototypeGradients, Scored, ScoringOrder
from fleetledger.schemas.receipts import Accepted, Later, Receipt, Refused
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.interface import Connected

ONE, OTHER = DeviceId("dev-a"), DeviceId("dev-b")
LINEAGE = Digest.of(b"the network")
PREPROCESSING = Preprocessing(
    mode="L", size=(8, 8), mean=(0.5,), deviation=(0.5,), input_name="image"
)


def offer(data: bytes) -> Offer:
    return BlockSource(data).offer


def sent(
    data: bytes, device: DeviceId = ONE, stage: int = 1, part: int = 1, *, offered: bool = False
) -> inputs.Gradients:
    body = PrototypeGradients(
        key=PartKey(stage=stage, part=part),
        method="lga",
        lineage=LINEAGE,
        payload=Digest.of(data),
        payload_bytes=len(data),
        offer=offer(data) if offered else None,
    )
    return inputs.Gradients(device, body, b"" if offered else data)


def order(action: int = 10, **changes: Any) -> ScoringOrder:
    values: dict[str, Any] = {
        "action": action,
        "stage": 1,
        "round": 1,
        "round_of_stage": 1,
        "rounds_of_stage": 2,
        "method": "lga",
        "settings": {},
        "lineage": LINEAGE,
        "weights": offer(b"weights %d" % action),
        "class_names": (ClassName("ant"),),
        "preprocessing": PREPROCESSING,
        "seed": 1,
    }
    return ScoringOrder.model_validate(values | changes)


def scored(asked: ScoringOrder, *used: Name, task: int = 1) -> OrderScored:
    told = Scored(action=asked.action, seconds=1.0)
    return OrderScored(ScoredOrder(asked, told, task), b"state", used)


def fetching(asked: ScoringOrder) -> ProxyFetch:
    return ProxyFetch(asked, asked.weights, PROXY)


def weights_of(asked: ScoringOrder) -> bytes:
    return b"weights %d" % asked.action


def arrived(asked: ScoringOrder) -> inputs.Fetched:
    return inputs.Fetched(asked, weights_of(asked))


def lost(wanted: ScoringOrder | Name) -> inputs.Fetched:
    return inputs.Fetched(wanted, None, "no answer")


class Driven:
    """A core whose decisions are carried out at once; `requests` are those of the last input."""

    def __init__(self, **bytes_of: int) -> None:
        self.records = ProxyRecords()
        limits = {"payload_megabytes": 0.001, "waiting_megabytes": 0.001}
        limits |= {f"{name}_megabytes": count / MEGABYTE for name, count in bytes_of.items()}
        self.core = ProxyCore(Limits(**limits), self.records)
        self.now = 0.0

    def happens(self, event: inputs.Input) -> list[Request]:
        decision = self.core.handle(event, self.now)
        self._commit(decision)
        return [*decision.requests, *self.passes(0)]

    def _commit(self, decision: inputs.ProxyDecision) -> None:
        for change in decision.changes:
            self.records.apply(change)

    def passes(self, seconds: float) -> list[Request]:
        self.now += seconds
        found: list[Request] = []
        while decision := self.core.due(self.now):
            self._commit(decision)
            found += decision.requests
        return found


def answers(requests: list[Request]) -> list[tuple[DeviceId, Receipt]]:
    return [
        (item.device, item.body)
        for item in requests
        if isinstance(item, Tell) and item.device is not None and isinstance(item.body, Receipt)
    ]


def name(data: bytes, stage: int = 1, part: int = 1) -> Name:
    return Name(PartKey(stage=stage, part=part), Digest.of(data))


def test_nothing_is_answered_before_it_is_kept_and_checked() -> None:
    driven = Driven()
    decision = driven.core.handle(sent(b"one"), 0)
    assert [type(change) for change in decision.changes] == [GradientsStored]
    assert not decision.requests
    driven._commit(decision)
    assert not driven.happens(sent(b"one"))
    asked = order()
    requests = driven.happens(asked)
    assert requests == [Check(asked, name(b"one")), fetching(asked)]
    ((device, receipt),) = answers(driven.happens(inputs.Checked(name(b"one"), "")))
    assert (device, receipt.payload, receipt.about) == (ONE, Digest.of(b"one"), "gradients")
    assert isinstance(receipt.answer, Accepted)


def test_who_sent_what_is_forgotten_with_the_score_and_repeats_get_the_same_receipt() -> None:
    driven, asked = Driven(), order()
    driven.happens(sent(b"one"))
    driven.happens(asked)
    ((_, first),) = answers(driven.happens(inputs.Checked(name(b"one"), "")))
    requests = driven.happens(arrived(asked))
    assert requests == [Score(asked, weights_of(asked), (name(b"one"),), anew=True)]
    assert driven.records.gradients[name(b"one")].device == ONE
    driven.happens(scored(asked, name(b"one")))
    held = driven.records.gradients[name(b"one")]
    assert (held.device, held.size) == (None, 0)
    assert answers(driven.happens(sent(b"one"))) == [(ONE, first)]


def test_of_refused_gradients_nothing_stays_but_the_answer() -> None:
    driven = Driven()
    driven.happens(sent(b"one"))
    driven.happens(order())
    ((_, receipt),) = answers(driven.happens(inputs.Checked(name(b"one"), "no such tensor")))
    assert receipt.answer == Refused(reason="no such tensor")
    held = driven.records.gradients[name(b"one")]
    assert (held.device, held.size) == (None, 0)


def test_a_device_gives_one_set_a_round() -> None:
    driven = Driven()
    driven.happens(sent(b"one"))
    ((_, receipt),) = answers(driven.happens(sent(b"another")))
    assert isinstance(receipt.answer, Refused)
    assert not answers(driven.happens(sent(b"another", OTHER)))
    assert not answers(driven.happens(sent(b"another", part=2)))


@pytest.mark.parametrize(("limits", "answer"), [({"payload": 2}, Refused), ({"waiting": 2}, Later)])
def test_sizes_are_bounded_before_anything_is_fetched(limits: dict[str, int], answer: type) -> None:
    requests = Driven(**limits).happens(sent(b"one", offered=True))
    assert [type(item) for item in requests] == [Tell]
    assert isinstance(answers(requests)[0][1].answer, answer)


def test_what_is_being_fetched_takes_room_too() -> None:
    driven = Driven(waiting=4)
    requests = driven.happens(sent(b"one", offered=True))
    assert [type(item) for item in requests] == [ProxyFetch]
    ((_, receipt),) = answers(driven.happens(sent(b"two", OTHER)))
    assert isinstance(receipt.answer, Later)
    ((device, again),) = answers(driven.happens(lost(name(b"one"))))
    assert (device, isinstance(again.answer, Later)) == (ONE, True)
    assert not driven.happens(sent(b"two", OTHER))


def test_gradients_of_a_later_stage_wait_and_those_of_an_earlier_one_are_refused() -> None:
    driven, asked = Driven(), order(stage=2)
    driven.happens(asked)
    driven.happens(arrived(asked))
    driven.happens(scored(asked, task=2))
    assert not driven.happens(sent(b"later", stage=3))
    ((_, receipt),) = answers(driven.happens(sent(b"earlier", stage=1)))
    assert isinstance(receipt.answer, Refused)
    assert "stage 2" in receipt.answer.reason
    requests = driven.happens(order(20, stage=3))
    assert Check(order(20, stage=3), name(b"later", stage=3)) in requests


def test_a_score_waits_a_little_for_gradients_that_are_on_their_way() -> None:
    driven, asked = Driven(), order()
    driven.happens(sent(b"one", offered=True))
    driven.happens(asked)
    assert not driven.happens(arrived(asked))
    assert driven.core.wake_at() == rules.GATHER_SECONDS
    assert driven.passes(rules.GATHER_SECONDS) == [Score(asked, weights_of(asked), (), anew=True)]


def test_weights_that_did_not_come_are_fetched_again() -> None:
    driven, asked = Driven(), order()
    assert driven.happens(asked) == [fetching(asked)]
    assert not driven.happens(lost(asked))
    assert driven.core.wake_at() == rules.RETRY_SECONDS
    assert driven.passes(rules.RETRY_SECONDS) == [fetching(asked)]


def test_weights_that_two_rounds_gave_are_fetched_for_each() -> None:
    driven, first = Driven(), order(10)
    driven.happens(first)
    driven.happens(arrived(first))
    driven.happens(scored(first))
    second = order(20, weights=first.weights)
    assert driven.happens(second) == [fetching(second)]


def test_weights_of_an_order_before_do_not_count() -> None:
    driven, second = Driven(), order(20)
    driven.happens(order(10))
    driven.happens(second)
    driven.happens(arrived(second))
    assert not driven.happens(arrived(order(10)))
    assert not driven.happens(lost(order(10)))
    assert not driven.passes(rules.RETRY_SECONDS)


def test_one_order_is_scored_at_a_time_and_the_newest_comes_next() -> None:
    driven = Driven()
    first, second, third = order(10), order(20), order(30)
    driven.happens(first)
    driven.happens(arrived(first))
    assert not driven.happens(second)
    assert not driven.happens(third)
    assert driven.happens(scored(first)) == [fetching(third)]
    requests = driven.happens(arrived(third))
    assert requests == [Score(third, weights_of(third), (), anew=False)]


def test_a_score_is_told_until_its_receipt_comes() -> None:
    driven, asked = Driven(), order()
    driven.happens(asked)
    driven.happens(arrived(asked))
    told = Tell(Scored(action=10, seconds=1.0))
    assert driven.happens(scored(asked)) == [told]
    assert driven.passes(rules.TELL_SECONDS) == [told]
    assert driven.happens(Connected(session_present=True)) == [told]
    key = PartKey(stage=1, part=1)
    driven.happens(Receipt(about="scored", key=key, answer=Accepted(ledger_index=11)))
    assert not driven.passes(rules.TELL_SECONDS)
    assert driven.happens(asked) == [told]


def test_an_order_that_cannot_be_carried_out_is_told_once_and_keeps_gradients() -> None:
    driven, asked = Driven(), order()
    driven.happens(sent(b"one"))
    driven.happens(asked)
    failed = inputs.OrderFailed(10, "method: unknown")
    (told,) = driven.happens(failed)
    assert isinstance(told, Tell)
    assert not driven.happens(failed)
    assert not driven.passes(1000)
    assert Check(order(20), name(b"one")) in driven.happens(order(20))
