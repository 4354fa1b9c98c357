"""What the proxy is asked: one order, retained, for the weights that lead."""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.requests import SendToDevice, TakeBack
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.classes.commands import RenameClass
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.schemas.envelope import PROXY
from fleetledger.schemas.proxy import ScoringOrder
from fleetledger.schemas.values import ClassName
from tests.coordinator.core.harness import names, offer, sent
from tests.coordinator.core.round_bench import NETWORK, RoundBench
from tests.coordinator.topics.proxy.test_proxy import SCORED, ProxyBench, score


def test_what_a_round_gave_is_offered_to_the_proxy_alone() -> None:
    bench = ProxyBench()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    (told,) = [
        r for r in bench.average(request) if isinstance(r, SendToDevice) and r.leaf == "assignment"
    ]
    assert (told.device, told.retain) == (PROXY, True)
    assert isinstance(told.body, ScoringOrder)
    order = told.body
    (opened,) = bench.told(RoundOpened)
    assert isinstance(opened, RoundOpened)
    assert isinstance(bench.entries[order.action][0], WeightsAveraged)
    assert (order.round, order.stage) == (1, 1)
    assert (order.round_of_stage, order.rounds_of_stage) == (1, 9)
    assert order.weights == offer("weights 1")
    assert order.class_names == names("cat", "dog")
    assert order.class_stages == (1, 1)
    assert (order.lineage, order.preprocessing) == (SCORED.digest, SCORED.preprocessing)
    assert order.seed == opened.seed


def test_the_proxy_is_told_what_classes_were_called_before() -> None:
    bench = ProxyBench()
    before = bench.learn(1)
    assert not before.aliases
    bench.say(score(before))
    bench.command(RenameClass(old=ClassName("cat"), new=ClassName("puss")))
    bench.orders_now()
    order = bench.learn(2)
    assert order.class_names == names("puss", "dog")
    assert order.aliases == {"cat": "puss"}


def test_networks_without_a_proxy_ask_nobody() -> None:
    bench = RoundBench()
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    assert not sent(bench.average(request), ScoringOrder)
    assert bench.orders(bench.wait(0))


def test_an_order_of_a_network_before_is_taken_back() -> None:
    taken_back = TakeBack(PROXY, "assignment")
    bench = ProxyBench()
    bench.learn(1)
    again = SCORED.model_copy(update={"name": "begun anew"})
    for lineage in (NETWORK, again):
        assert taken_back in bench.imports(lineage)
        assert taken_back in bench.handle(inputs.CoordinatorConnected()), (
            "the broker may keep it still"
        )


def test_fleets_that_never_had_a_proxy_take_nothing_back() -> None:
    bench = RoundBench()
    bench.lead()
    for requests in (bench.imports(NETWORK), bench.handle(inputs.CoordinatorConnected())):
        assert not [request for request in requests if isinstance(request, TakeBack)]
