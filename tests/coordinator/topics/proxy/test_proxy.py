"""A proxy scores what each round gave, and devices distil from the old models that it chooses."""

from __future__ import annotations

import json

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.due_times import next_due
from fleetledger.coordinator.core.requests import Request
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.devices.entries import DeviceProblem
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen, OldModelMissed
from fleetledger.coordinator.topics.proxy.state import OldModel
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.envelope import PROXY, Sender
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import Birth, Death, Heartbeat, Welcome
from fleetledger.schemas.proxy import Scored, ScoredModel, ScoringOrder
from fleetledger.schemas.receipts import Accepted, Receipt, Refused
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import BootId, DeviceId, Digest
from tests.coordinator.core.harness import CAPABLE, FLEET, SECOND, names, offer, receipt, sent
from tests.coordinator.core.round_bench import ABLE, NETWORK, RoundBench, averaged

SCORED = NETWORK.model_copy(update={"proxy": True})
INSTALLATION = BootId("0123456789abcdef")


class ProxyBench(RoundBench):
    """Rounds whose weights a proxy scores."""

    def __init__(self, **rules: object) -> None:
        super().__init__(**({"per_stage": 9, "proxy_seconds": 50.0} | rules))
        self.lead(SCORED)

    def learn(self, number: int) -> ScoringOrder:
        """Let a round give weights; return what the proxy is asked then."""
        request = self.whole_round(number)
        assert isinstance(request, AverageRound)
        (order,) = sent(self.average(request), ScoringOrder)
        assert isinstance(order, ScoringOrder)
        return order

    def say(self, body: Message) -> list[Request]:
        sender = self.senders.setdefault(PROXY, Sender(FLEET, PROXY, BootId.fresh()))
        return self.handle(inputs.DeviceMessage(PROXY, sender.seal(body, sent_ms=0)))

    def orders_now(self) -> dict[str, list[Digest]]:
        """The old models in the orders of the round that opens now, by their names."""
        orders = self.orders(self.wait(0))
        assert len(orders) == 3, "a round opens"
        return {name: [item.digest] for name, item in orders["dev-1"].extras.items()}


def weights(number: int) -> Digest:
    return Digest.of(f"weights {number}".encode())


def model(number: int, score: float) -> ScoredModel:
    return ScoredModel(round=number, weights=weights(number), score=score)


def score(order: ScoringOrder, value: float = 0.5, **changes: object) -> Scored:
    """An answer that finds the newest model the best of the task."""
    newest = model(order.round, value)
    values = {
        "action": order.action,
        "newest": newest,
        "scored": (newest,),
        "current": newest.weights,
        "gradients": 2,
        "images": 5,
        "seconds": 1.5,
    }
    return Scored.model_validate(values | changes)


def test_the_next_round_waits_for_the_score_and_hands_out_what_it_chose() -> None:
    bench = ProxyBench()
    order = bench.learn(1)
    assert not bench.orders(bench.wait(20))
    told = receipt(bench.say(score(order)))
    assert told.about == "scored"
    assert told.key == PartKey(stage=1, part=1)
    assert isinstance(told.answer, Accepted)
    entry = bench.entries[told.answer.ledger_index][0]
    assert isinstance(entry, OldModelChosen)
    assert (entry.number, entry.answer.action) == (1, order.action)
    assert entry.current == OldModel(round=1, weights=offer("weights 1"))
    assert entry.previous is None
    assert bench.orders_now() == {"new-model": [weights(1)]}


def test_both_old_models_travel_and_the_best_score_wins_the_later_of_equals() -> None:
    bench = ProxyBench()
    bench.say(score(bench.learn(1), 0.75))
    bench.wait(0)
    bench.say(score(bench.learn(2), 0.75, scored=(model(1, 0.75), model(2, 0.75))))
    bench.wait(0)
    third = score(
        bench.learn(3),
        0.25,
        scored=(model(1, 0.75), model(2, 0.75), model(3, 0.25)),
        previous=weights(1),
        current=weights(2),
        shifted=True,
    )
    bench.say(third)
    *_, entry = bench.told(OldModelChosen)
    assert isinstance(entry, OldModelChosen)
    assert (entry.winner, entry.answer.newest) == (model(2, 0.75), model(3, 0.25))
    assert entry.answer == third
    assert bench.orders_now() == {"old-model": [weights(1)], "new-model": [weights(2)]}


def test_a_mean_that_passes_old_models_on_does_not_bring_them_back() -> None:
    bench = ProxyBench()
    bench.say(score(bench.learn(1)))
    bench.wait(0)
    request = bench.whole_round(2)
    assert isinstance(request, AverageRound)
    given = bench.told(RoundOpened)[-1]
    assert isinstance(given, RoundOpened)
    fisher = {"fisher": offer("fisher")}
    body = WeightsAveraged(
        number=2,
        lineage=SCORED.digest,
        inputs=tuple(item.index for item in request.inputs),
        class_names=request.opened.class_names,
        aggregate=Digest.of(b"sum"),
        weights=offer("weights 2"),
        extras={**given.extras, **fisher},
        samples=9,
        client_drift=0.5,
        fingerprint={},
        seconds=0.1,
    )
    (order,) = sent(bench.handle(body), ScoringOrder)
    assert isinstance(order, ScoringOrder)
    bench.say(score(order, previous=weights(1), current=weights(2)))
    assert bench.orders_now() == {
        "fisher": [fisher["fisher"].digest],
        "old-model": [weights(1)],
        "new-model": [weights(2)],
    }


def test_what_a_round_gave_is_told_apart_by_no_order_of_its_files() -> None:
    bench = ProxyBench()
    bench.say(score(bench.learn(1)))
    bench.wait(0)
    request = bench.whole_round(2)
    assert isinstance(request, AverageRound)
    extras = {name: offer(name) for name in ("old-model", "new-model", "fisher")}
    body = averaged(request).model_copy(update={"lineage": SCORED.digest, "extras": extras})
    bench.handle(body)
    read = read_entry(
        body.kind, json.loads(json.dumps(body.model_dump(mode="json"), sort_keys=True))
    )
    assert isinstance(read, WeightsAveraged)
    assert set(read.blobs) == set(body.blobs) != read.blobs
    assert bench.core.state.rounds.made[2].blobs == tuple(sorted(read.blobs))


def test_without_a_score_in_time_the_next_round_opens_and_the_ledger_says_so() -> None:
    bench = ProxyBench()
    bench.say(score(bench.learn(1)))
    bench.wait(0)
    bench.learn(2)
    bench.wait(49.9)
    assert not bench.told(OldModelMissed)
    bench.wait(0.1)
    (missed,) = bench.told(OldModelMissed)
    assert isinstance(missed, OldModelMissed)
    assert (missed.number, missed.seconds) == (2, 50)
    assert bench.orders_now() == {"new-model": [weights(1)]}
    bench.wait(60)
    assert len(bench.told(OldModelMissed)) == 1


def test_time_alone_wakes_the_rules_when_the_proxy_is_late() -> None:
    bench = ProxyBench()
    bench.learn(1)
    bench.wait(0)
    shortly_before = bench.now_ns + 50 * SECOND - 1
    due = next_due(bench.rules, bench.core.state, bench.core.live, shortly_before)
    assert due is not None
    assert 0 < due - shortly_before < SECOND // 10


def test_a_score_that_nobody_waits_for_counts_for_the_rounds_after_it() -> None:
    bench = ProxyBench()
    late = bench.learn(1)
    bench.wait(50)
    assert bench.orders_now() == {}
    assert isinstance(receipt(bench.say(score(late))).answer, Accepted)
    bench.say(score(bench.learn(2), newest=None, scored=(), current=weights(1)))
    assert bench.orders_now() == {"new-model": [weights(1)]}


def test_a_proxy_with_nothing_to_score_by_says_so_and_nobody_has_an_old_model() -> None:
    bench = ProxyBench()
    empty = Scored(action=bench.learn(1).action, seconds=0)
    bench.say(empty)
    (entry,) = bench.told(OldModelChosen)
    assert isinstance(entry, OldModelChosen)
    assert (entry.answer.newest, entry.winner, entry.current) == (None, None, None)
    assert bench.orders_now() == {}


def test_a_repeat_is_recorded_once_and_the_first_answer_stands() -> None:
    bench = ProxyBench()
    order = bench.learn(1)
    first = receipt(bench.say(score(order)))
    assert receipt(bench.say(score(order))) == first
    other = receipt(bench.say(score(order, 0.75))).answer
    assert isinstance(other, Refused)
    assert "that stands" in other.reason
    bench.wait(0)
    bench.say(score(bench.learn(2)))
    again = receipt(bench.say(score(order))).answer
    assert isinstance(again, Refused), "an order before the last that was answered"
    assert len(bench.told(OldModelChosen)) == 2


def test_answers_that_name_what_the_lineage_does_not_know_are_refused_in_words() -> None:
    bench = ProxyBench()
    bench.say(score(bench.learn(1)))
    bench.wait(0)
    order = bench.learn(2)
    foreign = Digest.of(b"foreign")
    for changes, why in (
        ({"current": foreign}, f"current: weights {foreign.short} are not of this network"),
        ({"previous": foreign}, f"previous: weights {foreign.short}"),
        ({"previous": SCORED.weights.digest}, "previous: weights"),
        ({"newest": model(1, 0.5)}, "newest.round: 1"),
        ({"scored": (model(7, 0.5),)}, "are not what round 7"),
        ({"scored": (ScoredModel(round=1, weights=weights(2), score=0.5),)}, "what round 1"),
    ):
        told = receipt(bench.say(score(order, **changes)))
        assert isinstance(told.answer, Refused), why
        assert why in told.answer.reason
        assert told.key == PartKey(stage=1, part=2)
    assert len(bench.told(OldModelChosen)) == 1
    assert not bench.orders(bench.wait(0)), "the round still waits"
    assert isinstance(receipt(bench.say(score(order))).answer, Accepted)


def test_scores_beyond_one_are_complained_about() -> None:
    bench = ProxyBench()
    good = score(bench.learn(1))
    broken = good.model_dump(mode="json")
    broken["newest"]["score"] = 1.5
    sender = Sender(FLEET, PROXY, BootId.fresh())
    envelope = sender.seal(good, sent_ms=0)
    header = envelope.header.model_copy(update={"body": broken})
    told = bench.handle(inputs.DeviceMessage(PROXY, type(envelope)(header, b"")))
    (problem,) = sent(told, Problem)
    assert isinstance(problem, Problem)
    assert "newest.score" in problem.text


def test_an_answer_to_an_unknown_action_is_answered_with_the_order_that_counts() -> None:
    bench = ProxyBench()
    order = bench.learn(1)
    told = bench.say(score(order, action=0))
    assert sent(told, ScoringOrder) == [order]
    assert not sent(told, Receipt)
    assert not bench.told(OldModelChosen)


def test_scores_for_a_network_without_a_proxy_change_nothing() -> None:
    bench = ProxyBench()
    order = bench.learn(1)
    bench.command(ImportNetwork(network=NETWORK))
    assert not sent(bench.say(score(order)), Receipt)
    assert not bench.told(OldModelChosen)


def test_the_proxy_is_no_device() -> None:
    bench = ProxyBench()
    answer = bench.command(AdmitDevice(device=PROXY))
    assert not answer.done
    assert "'proxy' is the proxy's own name" in answer.text
    size = bench.core.state.size
    beat = Heartbeat(
        welcomed=False,
        outbox_length=0,
        waiting_images=0,
        resident_bytes=1,
        bytes_up=0,
        bytes_down=0,
    )
    for body in (Birth(installation=INSTALLATION, capabilities=ABLE), beat, Death(reason="stop")):
        assert bench.say(body) == []
    (problem,) = sent(bench.say(Welcome(boot=INSTALLATION, next_part=0)), Problem)
    assert isinstance(problem, Problem)
    assert "is not a message of the proxy" in problem.text
    assert bench.core.state.size == size
    (opened,) = bench.told(RoundOpened)
    assert isinstance(opened, RoundOpened)
    assert PROXY not in opened.cohort


def test_only_the_proxy_speaks_on_its_topics() -> None:
    bench = ProxyBench()
    order = bench.learn(1)
    stranger = Sender(FLEET, DeviceId("dev-1"), BootId.fresh())
    told = bench.handle(inputs.DeviceMessage(PROXY, stranger.seal(score(order), sent_ms=0)))
    (problem,) = sent(told, Problem)
    assert isinstance(problem, Problem)
    assert "'dev-1' sent on the topic of the proxy" in problem.text
    assert not bench.told(OldModelChosen)
    (refused,) = sent(bench.message("dev-2", score(order)), Problem)
    assert isinstance(refused, Problem)
    assert "not a message of devices" in refused.text


def test_what_the_proxy_complains_about_is_in_the_ledger() -> None:
    bench = ProxyBench()
    bench.say(Problem(about="gradients", text="dev-1: not a set of gradients"))
    *_, (body, device, _) = bench.entries
    assert isinstance(body, DeviceProblem)
    assert device == PROXY


def test_a_stage_closes_without_the_score_and_the_next_one_waits_for_it() -> None:
    bench = ProxyBench(per_stage=1)
    order = bench.learn(1)
    bench.wait(0)
    assert bench.told(StageClosed)
    bench.command(OpenStage(class_names=names("eel")))
    assert not bench.orders(bench.wait(1))
    bench.core.live.making_model = False  # the export is not what this is about
    bench.say(score(order))
    assert bench.orders_now() == {"new-model": [weights(1)]}


def test_a_restart_between_weights_and_score_asks_again_and_records_once() -> None:
    bench = ProxyBench()
    bench.say(score(bench.learn(1)))
    bench.wait(0)
    order = bench.learn(2)
    before = bench.core.state
    bench.wait(45)
    bench.restart()
    assert bench.core.state == before
    assert sent(bench.handle(inputs.CoordinatorConnected()), ScoringOrder) == [order]
    for device in bench.devices:
        bench.born(device, capabilities=ABLE)
    bench.wait(0)
    bench.wait(20)
    assert not bench.told(OldModelMissed), "the proxy's time begins anew with the start"
    first = receipt(bench.say(score(order)))
    bench.restart()
    assert receipt(bench.say(score(order))) == first
    assert len(bench.told(OldModelChosen)) == 2
    for device in bench.devices:
        bench.born(device, capabilities=ABLE)
    bench.wait(0)
    *_, opened = bench.told(RoundOpened)
    assert isinstance(opened, RoundOpened)
    assert (opened.number, opened.extras["new-model"].digest) == (3, weights(2))


def test_the_state_is_a_fold_of_entries_as_they_are_stored() -> None:
    bench = ProxyBench()
    bench.say(score(bench.learn(1)))
    bench.wait(0)
    bench.learn(2)
    bench.wait(50)
    replayed = Core(bench.rules, can_learn=lambda *_: True)
    for body, device, time_ns in bench.entries:
        read = read_entry(body.kind, body.model_dump(mode="json"))
        replayed.state.apply(read, device, time_ns)
    assert replayed.state == bench.core.state


def test_devices_without_torch_do_not_matter_to_the_proxy() -> None:
    bench = ProxyBench()
    bench.command(AdmitDevice(device=DeviceId("small")))
    told = bench.born("small", capabilities=CAPABLE)
    assert sent(told, Assignment)
    assert not sent(told, ScoringOrder)
