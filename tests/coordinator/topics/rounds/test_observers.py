"""Observers: devices outside the cohort look at their images, and no round waits for them."""

from __future__ import annotations

from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.contributions.entries import NothingReported
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.receipts import Accepted, Receipt, Refused
from fleetledger.schemas.rounds import Observation
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import CAPABLE, names, receipt, sent
from tests.coordinator.core.round_bench import ABLE, NETWORK, RoundBench

OBSERVED = NETWORK.model_copy(update={"observes": True})
SEEN = Observation(entropy=1.25, images=40, transition=True)


class ObserverBench(RoundBench):
    """Two of five devices train in a round, the others look."""

    def __init__(self, **rules: object) -> None:
        super().__init__(devices=5, **({"cohort": 2, "quorum": 1.0} | rules))

    def opened(self) -> RoundOpened:
        *_, body = self.told(RoundOpened)
        assert isinstance(body, RoundOpened)
        return body

    def look(self, device: str, number: int = 1, seen: Observation | None = SEEN) -> Receipt:
        return receipt(self.message(device, Nothing(stage=1, round=number, observation=seen)))

    def closed(self) -> list[RoundClosed]:
        return [b for b in self.told(RoundClosed) if isinstance(b, RoundClosed)]


def test_everybody_able_outside_the_cohort_is_asked_to_look() -> None:
    bench = ObserverBench()
    bench.command(AdmitDevice(device=DeviceId("small")))
    bench.born("small", capabilities=CAPABLE)  # without torch
    orders = bench.orders(bench.lead(OBSERVED))
    opened = bench.opened()
    assert {*opened.cohort, *opened.observers} == set(bench.devices)
    assert len(opened.observers) == 3
    for device, order in orders.items():
        assert order.observes == (device in opened.observers)
        assert (order.number, order.weights) == (1, NETWORK.weights)


def test_nobody_looks_where_the_network_does_not_want_it() -> None:
    bench = ObserverBench()
    orders = bench.orders(bench.lead(NETWORK))
    assert set(orders) == set(bench.opened().cohort)
    assert bench.opened().observers == ()


def test_a_method_with_several_phases_has_them_look_once_in_a_round() -> None:
    bench = ObserverBench(per_stage=2)
    phases = {"round_phases": ("train", "distil"), "closing_phases": ("fisher",)}
    bench.lead(OBSERVED.model_copy(update=phases))
    looking = []
    for _ in range(5):
        opened = bench.opened()
        looking.append((opened.phase, len(opened.observers)))
        for device in opened.cohort:
            changes = {"round": {"phase": opened.phase, **ANSWER, "number": opened.number}}
            bench.answer(device, opened.number, **changes)
        bench.wait(0)
        request = bench.asked_for(AverageRound)
        assert isinstance(request, AverageRound)
        bench.average(request)
        bench.wait(0)
    phases_of_stage = ("train", "distil", "train", "distil", "fisher")
    assert looking == list(zip(phases_of_stage, (3, 0, 3, 0, 0), strict=True))


def test_the_round_closes_without_them_and_their_words_change_nothing_in_it() -> None:
    bench, quiet = ObserverBench(), ObserverBench()
    for one in (bench, quiet):
        one.lead(OBSERVED)
    first, *_ = bench.opened().observers
    assert isinstance(bench.look(first).answer, Accepted)
    for one in (bench, quiet):
        for device in one.opened().cohort:
            one.answer(device)
        one.wait(0)
    (heard,), (unheard,) = bench.closed(), quiet.closed()
    assert heard.reason == unheard.reason == "everybody answered"
    assert (heard.nothing, heard.missing, heard.failed) == ((), (), ())
    assert len(heard.counted) == len(unheard.counted) == 2


def test_who_is_asked_to_look_does_not_lower_the_number_of_answers_needed() -> None:
    bench = ObserverBench()
    bench.lead(OBSERVED)
    for device in bench.opened().observers:
        bench.look(device, seen=None)
    bench.answer(bench.opened().cohort[0])
    bench.wait(100)
    (closed,) = bench.closed()
    assert "1 of 2 answers needed" in closed.reason
    assert closed.nothing == ()


def test_what_a_device_saw_is_in_the_ledger_once() -> None:
    bench = ObserverBench()
    bench.lead(OBSERVED)
    first, *_ = bench.opened().observers
    told = bench.look(first)
    assert bench.look(first) == told
    (said,) = bench.told(NothingReported)
    assert isinstance(said, NothingReported)
    assert (said.nothing.round, said.nothing.observation) == (1, SEEN)


def test_an_observer_that_answers_late_is_recorded_and_changes_nothing() -> None:
    bench = ObserverBench()
    bench.lead(OBSERVED)
    for device in bench.opened().cohort:
        bench.answer(device)
    late, *_ = bench.opened().observers
    closing = bench.wait(0)
    over = [r for r in sent(closing, Assignment) if isinstance(r, Assignment)]
    assert [body.round for body in over] == [None] * 3, "their orders are taken back"
    before = bench.closed()
    assert isinstance(bench.look(late).answer, Accepted)
    assert bench.told(NothingReported)
    assert bench.closed() == before
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    assert len(request.inputs) == 2


def test_an_observer_that_gives_weights_is_refused() -> None:
    bench = ObserverBench()
    bench.lead(OBSERVED)
    refused = bench.answer(bench.opened().observers[0]).answer
    assert isinstance(refused, Refused)
    assert refused.reason == "round: 1 asked this device to look, not to train"


def test_an_order_to_look_is_repeated_until_it_is_answered() -> None:
    bench = ObserverBench()
    bench.lead(OBSERVED)
    first, *_ = bench.opened().observers
    assert bench.orders(bench.born(first, capabilities=ABLE))[first].observes
    bench.look(first)
    assert not bench.orders(bench.born(first, capabilities=ABLE))


def test_a_cohort_that_looks_and_has_nothing_to_train_on_is_not_waited_for() -> None:
    bench = ObserverBench()
    bench.lead(OBSERVED)
    one, other = bench.opened().cohort
    bench.answer(one)
    bench.look(other)
    bench.wait(0)
    (closed,) = bench.closed()
    assert closed.nothing == (other,)
    assert len(closed.counted) == 1


def test_the_state_with_observers_is_a_fold_of_the_ledger() -> None:
    bench = ObserverBench()
    bench.lead(OBSERVED)
    bench.look(bench.opened().observers[0])
    for device in bench.opened().cohort:
        bench.answer(device)
    bench.wait(0)
    bench.look(bench.opened().observers[1])
    replayed = Core(bench.rules, can_learn=lambda *_: True)
    for body, device, time_ns in bench.entries:
        read = read_entry(body.kind, body.model_dump(mode="json"))
        replayed.state.apply(read, device, time_ns)
    assert replayed.state == bench.core.state


def test_a_next_stage_asks_others_to_look() -> None:
    bench = ObserverBench()
    bench.lead(OBSERVED)
    bench.command(OpenStage(class_names=names("eel")))
    bench.wait(0)
    orders = bench.orders(bench.wait(0))
    assert sum(order.observes for order in orders.values()) == 3


ANSWER = {"samples": 3, "steps": 1, "seconds": 0}
