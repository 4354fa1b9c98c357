"""Rounds of several phases: who is asked in a later one, and what a phase that fails leads to."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.requests import PruneBlobs
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.core.work import AverageRound, RoundNotAveraged
from fleetledger.coordinator.topics.classes.commands import RenameClass
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.rounds.entries import RoundClosed
from fleetledger.coordinator.topics.rounds.retention import needed_blobs
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.receipts import Accepted, Refused
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from tests.coordinator.core.harness import can_learn, names, offer
from tests.coordinator.core.phase_bench import SHARING, TWO_PHASES, PhaseBench
from tests.coordinator.core.round_bench import ABLE, NETWORK


def test_a_later_phase_asks_those_whose_answers_counted() -> None:
    bench = PhaseBench(devices=5, cohort=3)
    bench.lead(TWO_PHASES)
    first = bench.opened
    told = bench.orders(bench.finish_phase(*first.cohort[:2]))
    assert bench.opened.cohort == first.cohort[:2]
    assert (bench.opened.phase, bench.opened.follows, bench.opened.round_of_stage) == (
        "distil",
        1,
        2,
    )
    assert {order.follows for order in told.values() if order.number == 2} == {1}
    bench.finish_phase()
    assert bench.rounds() == [(1, "train", None), (2, "distil", 1), (3, "train", None)]
    assert len(bench.opened.cohort) == 3


def test_a_later_phase_gets_the_weights_of_its_round_and_what_came_of_the_phase_before() -> None:
    bench = PhaseBench()
    bench.lead(TWO_PHASES)
    bench.finish_phase()
    assert bench.opened.weights == NETWORK.weights
    assert bench.opened.weights_class_names == ()
    assert bench.opened.class_names == names("cat", "dog")
    assert bench.opened.extras == {"ensemble": offer("ensemble 1")}
    bench.finish_phase()
    assert bench.opened.weights == offer("weights 2")
    assert bench.opened.weights_class_names == names("cat", "dog")


def test_a_device_that_died_between_phases_is_waited_for_and_asked_when_it_is_back() -> None:
    bench = PhaseBench()
    bench.lead(TWO_PHASES)
    for device in bench.devices:
        bench.answers(device)
    bench.core.live.device(DeviceId("dev-2")).boot = None  # it dies once its answer has counted
    bench.wait(0)
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    bench.pass_on(request)
    bench.wait(0)
    assert bench.opened.cohort == bench.devices
    bench.answers("dev-1", "dev-3")
    bench.wait(99)
    assert len(bench.told(RoundClosed)) == 1, "the round waits until its deadline"
    order = bench.orders(bench.born("dev-2", capabilities=ABLE))["dev-2"]
    assert (order.number, order.phase, order.follows) == (2, "distil", 1)
    bench.answers("dev-2")
    bench.wait(0)
    *_, closed = bench.told(RoundClosed)
    assert isinstance(closed, RoundClosed)
    assert (len(closed.counted), closed.missing) == (3, ())


def test_a_device_that_stays_away_is_left_out_at_the_deadline_of_the_phase() -> None:
    bench = PhaseBench()
    bench.lead(TWO_PHASES)
    bench.finish_phase()
    bench.finish_phase("dev-1", "dev-3")
    closed = bench.told(RoundClosed)[1]
    assert isinstance(closed, RoundClosed)
    assert closed.missing == (DeviceId("dev-2"),)
    assert bench.opened.cohort == bench.devices, "it is asked again in the next round"


def test_a_late_answer_to_a_phase_is_recorded_and_its_device_not_asked_for_the_next() -> None:
    bench = PhaseBench()
    bench.lead(TWO_PHASES)
    bench.finish_phase("dev-1", "dev-3")
    late = bench.answers("dev-2", number=1, phase="train")
    assert isinstance(late.answer, Accepted)
    assert bench.opened.cohort == ("dev-1", "dev-3")
    stranger = bench.answers("dev-2")
    assert isinstance(stranger.answer, Refused)
    assert "did not ask this device" in stranger.answer.reason


def test_an_answer_to_another_phase_is_refused_by_name() -> None:
    bench = PhaseBench()
    bench.lead(TWO_PHASES)
    bench.finish_phase()
    refused = bench.answers("dev-1", phase="train")
    assert isinstance(refused.answer, Refused)
    assert "round 2 is of stage 1, phase 'distil'" in refused.answer.reason


def test_the_quorum_of_a_later_phase_is_of_those_that_it_asks() -> None:
    bench = PhaseBench(devices=8, quorum=0.5)
    bench.lead(TWO_PHASES)
    bench.finish_phase("dev-1", "dev-2", "dev-3", "dev-4")
    bench.answers("dev-1", "dev-2")
    bench.wait(100)
    *_, closed = bench.told(RoundClosed)
    assert isinstance(closed, RoundClosed)
    assert len(closed.counted) == 2


def test_where_a_later_phase_comes_to_nothing_the_round_begins_again() -> None:
    bench = PhaseBench(quorum=1.0)
    bench.lead(TWO_PHASES)
    bench.finish_phase()
    bench.finish_phase()  # one whole round, so that there is something to go back to
    bench.finish_phase()
    assert bench.opened.extras == {"ensemble": offer("ensemble 3")}
    bench.answers("dev-1")
    bench.decline("dev-2", 4, reason="memory: nothing of round 3")
    bench.wait(100)
    bench.wait(4.9)
    assert bench.opened.number == 4
    told = bench.orders(bench.wait(0.1))
    assert set(told) == set(bench.devices)
    assert (bench.opened.phase, bench.opened.follows, bench.opened.round_of_stage) == (
        "train",
        None,
        3,
    )
    assert bench.opened.weights == offer("weights 2")
    assert bench.opened.extras == {}, "what came of the phase before is of no use any more"
    bench.finish_phase()
    bench.finish_phase()
    assert bench.told(StageClosed)


def test_where_answers_of_a_later_phase_cannot_be_combined_the_round_begins_again() -> None:
    bench = PhaseBench()
    bench.lead(TWO_PHASES)
    bench.finish_phase()
    bench.answers(*bench.devices)
    bench.wait(0)
    bench.asked_for(AverageRound)
    bench.handle(RoundNotAveraged(2, "training left the numbers"))
    bench.wait(5)
    assert (bench.opened.number, bench.opened.phase, bench.opened.extras) == (3, "train", {})


def test_what_a_round_began_with_is_kept_until_its_last_phase_is_over() -> None:
    bench = PhaseBench(keep_weights=1, per_stage=3, quorum=1.0)
    bench.lead(TWO_PHASES)
    gone: set[Digest] = set()
    for _ in range(3):
        requests = bench.finish_phase()
        gone |= {d for r in requests if isinstance(r, PruneBlobs) for d in r.digests}
    assert bench.opened.phase == "distil"
    begun = bench.core.state.rounds.first_of(bench.core.state.rounds.by_number[4]).weights
    assert begun is not None
    assert begun.offer == offer("weights 2")
    assert begun.offer.digest not in gone
    bench.wait(100)  # it comes to nothing
    bench.wait(5)
    assert (bench.opened.phase, bench.opened.weights) == ("train", begun.offer)


def test_a_class_that_is_renamed_in_a_round_keeps_its_name_until_the_round_is_over() -> None:
    bench = PhaseBench()
    bench.lead(TWO_PHASES)
    bench.finish_phase()
    bench.finish_phase()
    bench.answers(*bench.devices)
    bench.wait(0)
    bench.command(RenameClass(old=ClassName("cat"), new=ClassName("puss")))
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    bench.pass_on(request)
    order = bench.orders(bench.wait(0))["dev-1"]
    assert order.weights_class_names == order.class_names == names("cat", "dog")
    assert order.aliases == {"puss": "cat"}
    order = bench.orders(bench.finish_phase())
    assert not order, "the stage is over"
    assert bench.core.state.classes.names == names("puss", "dog")


def test_after_a_start_between_phases_the_next_one_opens_for_the_same_devices() -> None:
    bench = PhaseBench(gather_seconds=20.0)
    bench.lead(TWO_PHASES)
    bench.answers(*bench.devices)
    bench.wait(0)
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    bench.pass_on(request)
    before = bench.core.state
    bench.restart()
    assert bench.core.state == before
    bench.wait(0)
    assert (bench.opened.phase, bench.opened.follows) == ("distil", 1)
    assert bench.opened.cohort == bench.devices, "nobody is back yet, and the cohort is known"
    bench.restart()
    order = bench.orders(bench.born("dev-3", capabilities=ABLE))["dev-3"]
    assert (order.number, order.phase) == (2, "distil")


def test_after_a_start_a_round_begins_again_as_it_would_have_without() -> None:
    bench = PhaseBench()
    bench.lead(TWO_PHASES)
    bench.finish_phase()
    bench.finish_phase()
    bench.finish_phase()
    bench.wait(100)
    before = bench.core.state
    bench.restart()
    assert bench.core.state == before
    assert before.rounds.weights is not None
    assert before.rounds.weights.offer == offer("weights 2")


def test_an_opening_phase_comes_once_before_the_rounds_of_a_stage() -> None:
    bench = PhaseBench(per_stage=1)
    bench.lead(SHARING)
    for _ in range(3):
        bench.finish_phase()
    bench.core.live.making_model = False  # the export is not what this is about
    bench.command(OpenStage(class_names=names("eel")))
    bench.wait(0)
    assert bench.rounds() == [
        (1, "share", None),
        (2, "train", None),
        (3, "distil", 2),
        (4, "share", None),
    ]


def test_a_device_that_declines_to_share_still_trains() -> None:
    bench = PhaseBench(quorum=0.6)
    bench.lead(SHARING)
    reason = "policy.publish_images = false: this device publishes no images"
    for device in ("dev-2", "dev-3"):
        bench.decline(device, reason=reason)
    bench.answers("dev-1")
    bench.wait(0)
    closed = bench.told(RoundClosed)[0]
    assert isinstance(closed, RoundClosed)
    assert (len(closed.counted), closed.failed) == (1, ("dev-2", "dev-3"))
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    bench.pass_on(request)
    assert set(bench.orders(bench.wait(0))) == set(bench.devices)
    assert (bench.opened.phase, bench.opened.cohort) == ("train", bench.devices)


def test_where_everybody_declines_to_share_it_is_asked_again_after_the_pause() -> None:
    bench = PhaseBench()
    bench.lead(SHARING)
    for device in bench.devices:
        bench.decline(device, reason="policy.publish_images = false")
    bench.wait(0)
    bench.wait(5)
    assert bench.rounds() == [(1, "share", None), (2, "share", None)]


def test_a_closing_phase_asks_anew_and_is_tried_again_itself() -> None:
    network = TWO_PHASES.model_copy(update={"closing_phases": ("fisher",)})
    bench = PhaseBench(per_stage=1)
    bench.lead(network)
    bench.finish_phase("dev-1", "dev-3")
    bench.finish_phase()
    assert (bench.opened.phase, bench.opened.follows, bench.opened.cohort) == (
        "fisher",
        None,
        bench.devices,
    )
    bench.wait(100)
    bench.wait(5)
    assert (bench.opened.phase, bench.opened.number) == ("fisher", 4)
    bench.finish_phase()
    assert bench.told(StageClosed)


def test_a_stage_closed_between_phases_makes_no_second_model_of_the_same_weights() -> None:
    bench = PhaseBench(per_stage=1)
    bench.lead(SHARING)
    bench.finish_phase()
    bench.answers(*bench.devices)
    bench.wait(0)
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    bench.pass_on(request)
    bench.command(CloseStage())
    bench.wait(0)
    assert not bench.told(ModelSolved), "the first weights have no row"


BASE = NETWORK.model_copy(
    update={
        "class_names": names("cat", "dog"),
        "first_weights_suffice": True,
        "opening_phases": ("share",),
    }
)


def test_a_stage_whose_classes_lie_in_the_first_weights_ends_at_once_as_a_model() -> None:
    bench = PhaseBench()
    bench.lead(BASE)
    assert not bench.rounds()
    (taken,) = bench.told(ModelSolved)
    assert isinstance(taken, ModelSolved)
    assert (taken.head, taken.class_names) == (NETWORK.weights.digest, names("cat", "dog"))
    imported = bench.told(NetworkImported)[0]
    assert [body for body, _, _ in bench.entries].index(imported) == taken.weights_index
    (closed,) = bench.told(StageClosed)
    assert isinstance(closed, StageClosed)
    assert closed.reason == "first weights that know its classes, without rounds"
    bench.core.live.making_model = False
    bench.command(OpenStage(class_names=names("eel")))
    bench.wait(0)
    bench.wait(0)
    bench.core.live.making_model = False
    bench.wait(0)
    assert bench.opened.phase == "share"
    assert bench.opened.weights_class_names == names("cat", "dog")
    assert bench.opened.class_names == names("cat", "dog", "eel")


def test_such_a_stage_has_its_closing_phases_alone() -> None:
    bench = PhaseBench()
    bench.lead(BASE.model_copy(update={"closing_phases": ("fisher",)}))
    assert bench.rounds() == [(1, "fisher", None)]
    assert bench.opened.rounds_of_stage == 1
    bench.finish_phase()
    assert bench.told(StageClosed)


@pytest.mark.parametrize("suffice", [False, True])
def test_a_stage_with_classes_beyond_the_first_weights_has_rounds(suffice: bool) -> None:
    network = BASE.model_copy(
        update={"class_names": names("cat"), "first_weights_suffice": suffice}
    )
    bench = PhaseBench()
    bench.lead(network)
    assert bench.rounds() == [(1, "share", None)]
    assert bench.opened.weights_class_names == names("cat")


def test_first_weights_that_do_not_suffice_are_trained_further() -> None:
    bench = PhaseBench()
    bench.lead(BASE.model_copy(update={"first_weights_suffice": False, "opening_phases": ()}))
    assert bench.rounds() == [(1, "train", None)]
    assert bench.opened.weights_class_names == names("cat", "dog")


def test_the_first_stage_names_the_classes_of_the_first_weights_too() -> None:
    bench = PhaseBench()
    bench.command(ImportNetwork(network=BASE))
    refused = bench.command(OpenStage(class_names=names("cat", "eel")))
    assert not refused.done
    assert "weights that know dog; open the stage for them" in refused.text
    assert bench.command(OpenStage(class_names=names("eel", "dog", "cat"))).done


def test_files_of_the_operator_go_with_every_order_from_the_start() -> None:
    bench = PhaseBench()
    network = NETWORK.model_copy(update={"extras": {"shared": offer("public images")}})
    orders = bench.orders(bench.lead(network))
    assert orders["dev-1"].extras == {"shared": offer("public images")}
    assert offer("public images").digest in needed_blobs(bench.core.state)


NEW_FIELDS = {
    "network.imported": ("class_names", "extras", "opening_phases", "first_weights_suffice"),
    "round.opened": ("follows", "aliases"),
}


def test_a_ledger_from_before_there_were_phases_replays() -> None:
    bench = PhaseBench()
    bench.lead()
    for _ in range(2):
        bench.answers(*bench.devices)
        bench.wait(0)
        request = bench.asked_for(AverageRound)
        assert isinstance(request, AverageRound)
        bench.average(request)
        bench.wait(0)
    assert bench.told(ModelSolved)
    old = Core(bench.rules, can_learn=can_learn)
    for body, device, time_ns in bench.entries:
        fields = body.model_dump(mode="json")
        for name in NEW_FIELDS.get(body.kind, ()):
            assert not fields.pop(name, None)
        old.state.apply(read_entry(body.kind, fields), device, time_ns)
    assert old.state == bench.core.state
