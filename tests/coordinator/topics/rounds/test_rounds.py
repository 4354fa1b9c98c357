"""Rounds: a cohort is asked, its answers are averaged, and a stage ends after R of them."""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.work import AverageRound, ExportHead
from fleetledger.coordinator.topics.classes.commands import MergeClasses, RenameClass
from fleetledger.coordinator.topics.contributions.entries import NothingReported
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundOpened
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.receipts import Accepted
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from tests.coordinator.core.harness import CAPABLE, names
from tests.coordinator.core.round_bench import ABLE, NETWORK, RoundBench, sent


def test_a_stage_of_a_network_opens_a_round_and_asks_its_cohort() -> None:
    bench = RoundBench()
    orders = bench.orders(bench.lead())
    assert set(orders) == set(bench.devices)
    order = orders["dev-1"]
    assert (order.number, order.round_of_stage, order.rounds_of_stage) == (1, 1, 2)
    assert order.weights == NETWORK.weights
    assert order.weights_class_names == ()
    assert order.class_names == names("cat", "dog")


def test_devices_that_cannot_train_or_are_away_are_not_asked() -> None:
    bench = RoundBench()
    bench.lead(capabilities=CAPABLE)  # without torch
    assert not bench.told(RoundOpened)
    bench.born("dev-2", capabilities=ABLE)
    assert set(bench.orders(bench.wait(0))) == {"dev-2"}


def test_a_cohort_is_a_number_or_a_share_and_changes_from_round_to_round() -> None:
    bench = RoundBench(devices=10, cohort=3, per_stage=20)
    bench.lead()
    cohorts = []
    for number in range(1, 11):
        (opened,) = (body for body in bench.told(RoundOpened) if body.number == number)
        assert isinstance(opened, RoundOpened)
        cohorts.append(opened.cohort)
        for device in opened.cohort:
            bench.answer(device, number)
        bench.wait(0)
        request = bench.asked_for(AverageRound)
        assert isinstance(request, AverageRound)
        bench.average(request)
        bench.wait(0)
    assert {len(cohort) for cohort in cohorts} == {3}
    assert len(set(cohorts)) > 5
    assert len(set().union(*cohorts)) == 10


def test_the_cohort_does_not_depend_on_the_order_of_admission() -> None:
    forward, backward = RoundBench(devices=8, cohort=0.5), RoundBench(devices=8, cohort=0.5)
    backward.devices = backward.devices[::-1]
    forward.lead()
    backward.lead()
    (one,), (other,) = forward.told(RoundOpened), backward.told(RoundOpened)
    assert one == other


def test_a_round_that_everybody_answered_closes_and_is_averaged() -> None:
    bench = RoundBench()
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    assert [item.payload for item in request.inputs] == [
        Digest.of(device.encode()) for device in bench.devices
    ]
    bench.average(request)
    orders = bench.orders(bench.wait(0))
    assert orders["dev-1"].number == 2
    assert orders["dev-1"].weights.digest == Digest.of(b"weights 1")
    assert orders["dev-1"].weights_class_names == names("cat", "dog")


def test_nothing_else_is_asked_of_the_worker_while_it_averages() -> None:
    bench = RoundBench()
    bench.lead()
    bench.whole_round(1)
    assert not [r for r in bench.wait(5) if isinstance(r, AverageRound)]


def test_after_the_last_round_the_network_is_a_model_and_the_stage_closes() -> None:
    bench = RoundBench()
    bench.lead()
    for number in (1, 2):
        request = bench.whole_round(number)
        assert isinstance(request, AverageRound)
        bench.average(request)
        bench.wait(0)
    (taken,) = bench.told(ModelSolved)
    assert isinstance(taken, ModelSolved)
    assert taken.head == Digest.of(b"weights 2")
    assert taken.class_names == names("cat", "dog")
    (closed,) = bench.told(StageClosed)
    assert isinstance(closed, StageClosed)
    assert closed.reason == "2 rounds"
    assert (closed.answered, closed.expected) == (3, 3)
    assert [r for r in bench.wait(0) if isinstance(r, ExportHead)]


def test_the_rounds_of_the_next_stage_go_on_from_the_weights_and_the_numbers() -> None:
    bench = RoundBench(per_stage=1)
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.wait(0)
    bench.core.live.making_model = False  # the export is not what this is about
    bench.command(OpenStage(class_names=names("eel")))
    order = bench.orders(bench.wait(0))["dev-1"]
    assert (order.number, order.round_of_stage) == (2, 1)
    assert order.weights_class_names == names("cat", "dog")
    assert order.class_names == names("cat", "dog", "eel")


def test_orders_say_which_stage_brought_each_row_of_the_head() -> None:
    bench = RoundBench(per_stage=1)
    orders = bench.orders(bench.lead())
    assert {order.class_stages for order in orders.values()} == {(1, 1)}
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.wait(0)
    bench.core.live.making_model = False  # the export is not what this is about
    bench.command(OpenStage(class_names=names("hound", "eel", "dog")))
    order = bench.orders(bench.wait(0))["dev-1"]
    assert order.class_names == names("cat", "dog", "hound", "eel")
    assert order.class_stages == (1, 1, 2, 2)


def test_a_class_keeps_the_earliest_stage_of_its_names() -> None:
    bench = RoundBench()
    bench.lead()
    bench.command(OpenStage(class_names=names("Cat", "eel")))
    cat, capital, eel, fish = names("cat", "Cat", "eel", "fish")
    bench.command(RenameClass(old=eel, new=fish))
    bench.wait(0)  # closes the first stage's round
    order = bench.orders(bench.wait(0))["dev-1"]
    assert order.class_names == names("cat", "dog", "Cat", "fish")
    assert order.class_stages == (1, 1, 2, 2)
    bench.command(MergeClasses(source=cat, target=capital))
    order = bench.orders(bench.born("dev-1", capabilities=ABLE))["dev-1"]
    assert (order.class_names[2], order.class_stages) == (capital, (1, 1, 1, 2))


def test_the_stage_rules_for_statistics_do_not_close_a_stage_of_rounds() -> None:
    bench = RoundBench()
    bench.lead()
    bench.wait(50)  # longer than the stage's deadline, shorter than the round's
    assert not bench.told(StageClosed)


def test_at_the_deadline_a_round_closes_with_what_came() -> None:
    bench = RoundBench()
    bench.lead()
    bench.answer("dev-1")
    bench.answer("dev-3")
    bench.wait(100)
    (closed,) = bench.told(RoundClosed)
    assert isinstance(closed, RoundClosed)
    assert len(closed.counted) == 2
    assert closed.missing == (DeviceId("dev-2"),)
    assert "deadline" in closed.reason


def test_without_a_quorum_a_round_comes_to_nothing_and_does_not_count() -> None:
    bench = RoundBench(quorum=1.0)
    bench.lead()
    bench.answer("dev-1")
    bench.wait(100)
    (closed,) = bench.told(RoundClosed)
    assert isinstance(closed, RoundClosed)
    assert closed.counted == ()
    assert "1 of 3 answers needed" in closed.reason
    assert not bench.orders(bench.wait(4.9))
    order = bench.orders(bench.wait(0.1))["dev-1"]
    assert (order.number, order.round_of_stage) == (2, 1)
    assert order.weights == NETWORK.weights


def test_a_device_without_data_says_so_and_nobody_waits_for_it() -> None:
    bench = RoundBench(quorum=1.0)
    bench.lead()
    for device in ("dev-1", "dev-2"):
        bench.answer(device)
    accepted = bench.decline("dev-3")
    assert isinstance(accepted.answer, Accepted)
    assert accepted.key == PartKey(stage=1, part=1)
    assert bench.decline("dev-3") == accepted
    bench.wait(0)
    (closed,) = bench.told(RoundClosed)
    assert isinstance(closed, RoundClosed)
    assert len(closed.counted) == 2
    assert closed.nothing == (DeviceId("dev-3"),)
    assert closed.missing == ()


def test_a_device_that_could_not_train_is_not_waited_for_but_its_weights_are_missed() -> None:
    bench = RoundBench(quorum=1.0)
    bench.lead()
    for device in ("dev-1", "dev-2"):
        bench.answer(device)
    bench.decline("dev-3", reason="training: weights are not finite")
    bench.wait(0)
    (closed,) = bench.told(RoundClosed)
    assert isinstance(closed, RoundClosed)
    assert (closed.failed, closed.nothing, closed.missing) == ((DeviceId("dev-3"),), (), ())
    assert "2 of 3 answers needed" in closed.reason
    *_, said = bench.told(NothingReported)
    assert isinstance(said, NothingReported)
    assert said.nothing.reason == "training: weights are not finite"


def test_rounds_that_come_to_nothing_pause_so_that_the_ledger_does_not_fill() -> None:
    bench = RoundBench()
    bench.lead()
    for device in bench.devices:
        bench.decline(device)
    for _ in range(10):
        bench.wait(0.4)
    assert len(bench.told(RoundOpened)) == 1
    bench.wait(2)
    assert len(bench.told(RoundOpened)) == 2


def test_the_next_stage_does_not_wait_for_a_pause_of_the_one_before() -> None:
    bench = RoundBench()
    bench.lead()
    for device in bench.devices:
        bench.decline(device)
    bench.wait(0)
    bench.command(OpenStage(class_names=names("eel")))
    assert bench.orders(bench.wait(0))


def test_a_round_closes_with_its_stage_and_what_was_averaged_becomes_a_model() -> None:
    bench = RoundBench(per_stage=9)
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.wait(0)
    bench.answer("dev-1", 2)
    bench.command(CloseStage())
    bench.wait(0)
    *_, closed = bench.told(RoundClosed)
    assert isinstance(closed, RoundClosed)
    assert (closed.number, closed.counted) == (2, ())
    assert closed.reason.startswith("stage 1 is closed")
    bench.wait(0)
    (taken,) = bench.told(ModelSolved)
    assert isinstance(taken, ModelSolved)
    assert taken.head == Digest.of(b"weights 1")
    bench.wait(100)
    assert len(bench.told(ModelSolved)) == 1
    assert len(bench.told(RoundOpened)) == 2


def test_an_order_of_a_stage_that_is_over_is_not_repeated() -> None:
    bench = RoundBench()
    bench.lead()
    told = bench.handle(inputs.OperatorCommand("next", OpenStage(class_names=names("eel"))))
    assert sent(told, Assignment)
    assert not bench.orders(told)


def test_after_a_start_a_round_waits_for_able_devices_to_come_back() -> None:
    bench = RoundBench(gather_seconds=20.0)
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.restart()
    bench.wait(0)
    bench.born("dev-1", capabilities=ABLE)
    bench.born("dev-2", capabilities=ABLE)
    bench.wait(19)
    assert len(bench.told(RoundOpened)) == 1
    bench.born("dev-3", capabilities=ABLE)
    bench.wait(0)
    *_, opened = bench.told(RoundOpened)
    assert isinstance(opened, RoundOpened)
    assert opened.cohort == bench.devices


def test_a_device_that_stays_away_after_a_start_is_not_waited_for_longer() -> None:
    bench = RoundBench(gather_seconds=20.0)
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.restart()
    bench.wait(0)
    bench.born("dev-1", capabilities=ABLE)
    assert set(bench.orders(bench.wait(20))) == {"dev-1"}


def test_a_round_that_was_closed_before_a_crash_is_averaged_after_it() -> None:
    bench = RoundBench()
    bench.lead()
    before = bench.whole_round(1)
    bench.restart()
    assert bench.asked_for(AverageRound) == before


def test_a_class_that_is_renamed_keeps_its_row_and_its_images() -> None:
    bench = RoundBench()
    bench.lead()
    bench.command(RenameClass(old=ClassName("cat"), new=ClassName("puss")))
    order = bench.orders(bench.born("dev-1", capabilities=ABLE))["dev-1"]
    assert order.class_names == names("cat", "dog")
    assert order.aliases == {"puss": "cat"}
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    order = bench.orders(bench.wait(0))["dev-1"]
    assert order.weights_class_names == order.class_names == names("puss", "dog")
    assert order.aliases == {"cat": "puss"}
    opened = bench.told(RoundOpened)
    assert [body.aliases for body in opened] == [{}, order.aliases]
