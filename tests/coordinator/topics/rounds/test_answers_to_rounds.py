"""Answers to rounds: late, repeated, refused, phased, kept or deleted; and what follows a stage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.assignments import action_for
from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.requests import PruneBlobs, Request
from fleetledger.coordinator.core.work import (
    AverageRound,
    FreezeNetwork,
    RoundNotAveraged,
)
from fleetledger.coordinator.topics.contributions import rules as intake
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.entries import FrozenBackbone, Successor
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, RoundFailed, RoundOpened
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.methods.registry import descriptor
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.presence import Heartbeat, Welcome
from fleetledger.schemas.receipts import Accepted, Later, Refused
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.core.harness import BACKBONE, contribution, offer, receipt
from tests.coordinator.core.round_bench import ABLE, NETWORK, RoundBench, averaged, sent, update_of


def test_a_round_in_which_nobody_has_data_comes_to_nothing() -> None:
    bench = RoundBench()
    bench.lead()
    for device in bench.devices:
        bench.decline(device)
    bench.wait(0)
    (closed,) = bench.told(RoundClosed)
    assert isinstance(closed, RoundClosed)
    assert closed.counted == ()


def test_a_late_answer_is_recorded_and_left_out() -> None:
    bench = RoundBench()
    bench.lead()
    bench.answer("dev-1")
    bench.answer("dev-2")
    bench.wait(100)
    late = bench.answer("dev-3")
    assert isinstance(late.answer, Accepted)
    *_, entry = bench.told(ContributionAccepted)
    assert isinstance(entry, ContributionAccepted)
    assert entry.part.round is not None
    assert (entry.part.round.number, entry.late) == (1, True)
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    assert len(request.inputs) == 2


def test_a_missing_device_is_told_that_its_order_is_over() -> None:
    bench = RoundBench()
    bench.lead()
    bench.answer("dev-1")
    bench.answer("dev-2")
    (told,) = sent(bench.wait(100), Assignment)
    assert isinstance(told, Assignment)
    assert told.round is None


def test_an_order_that_was_lost_is_repeated_to_its_device_alone() -> None:
    bench = RoundBench()
    bench.lead()
    beat = Heartbeat(
        welcomed=True,
        assignment_action=0,
        outbox_length=0,
        waiting_images=0,
        resident_bytes=1,
        bytes_up=1,
        bytes_down=1,
    )
    repeated = bench.message("dev-2", beat)
    assert set(bench.orders(repeated)) == {"dev-2"}
    action = action_for(bench.core.state, DeviceId("dev-2"))
    current = beat.model_copy(update={"assignment_action": action})
    assert not sent(bench.message("dev-2", current), Assignment)


def test_a_device_that_answered_is_not_asked_again_when_it_comes_back() -> None:
    bench = RoundBench()
    bench.lead()
    bench.answer("dev-1")
    assert not bench.orders(bench.born("dev-1", capabilities=ABLE))
    assert set(bench.orders(bench.born("dev-2", capabilities=ABLE))) == {"dev-2"}


def test_a_device_that_joins_in_the_middle_is_asked_in_the_next_round() -> None:
    bench = RoundBench()
    bench.lead()
    bench.command(AdmitDevice(device=DeviceId("dev-9")))
    assert not bench.orders(bench.born("dev-9", capabilities=ABLE))
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    assert "dev-9" in bench.orders(bench.wait(0))


def test_repeats_get_the_same_receipt_and_other_weights_are_refused() -> None:
    bench = RoundBench()
    bench.lead()
    first = bench.answer("dev-1")
    assert bench.answer("dev-1") == first
    other = bench.answer("dev-1", text="other weights")
    assert isinstance(other.answer, Refused)
    assert "answered round 1 otherwise" in other.answer.reason


def test_answers_that_make_no_sense_are_refused_by_name() -> None:
    bench = RoundBench(cohort=2)
    bench.lead()
    (opened,) = bench.told(RoundOpened)
    assert isinstance(opened, RoundOpened)
    (stranger,) = set(bench.devices) - set(opened.cohort)
    asked = opened.cohort[0]
    two = RoundAnswer(number=1, samples=2, steps=1, seconds=0)
    phase = RoundAnswer(number=1, phase="distil", samples=3, steps=1, seconds=0)
    for device, number, changes, why in (
        (stranger, 1, {}, "did not ask this device"),
        (asked, 7, {}, "did not ask this device"),
        (asked, 1, {"lineage": Digest.of(b"another")}, "lineage"),
        (asked, 1, {"round": two}, "round.samples"),
        (asked, 1, {"round": phase}, "phase"),
        (asked, 1, {"samples": {"yak": 3}}, "class 'yak' is not registered"),
        (
            asked,
            1,
            {"payload_kind": "logits"},
            "payload_kind: 'logits'; with 'rounds' devices give weights",
        ),
    ):
        refused = bench.answer(device, number, **changes).answer
        assert isinstance(refused, Later if "not registered" in why else Refused), why
        assert why in refused.reason


def test_gradients_for_a_proxy_are_refused_where_weights_are_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = RoundBench()
    bench.lead()
    assert isinstance(bench.answer("dev-1").answer, Accepted)
    known = replace(descriptor("rounds"), payload_kinds=("weights", "gradients"), proxy=True)
    monkeypatch.setattr(intake, "descriptor", lambda _: known)
    refused = bench.answer("dev-2", payload_kind="gradients").answer
    assert isinstance(refused, Refused)
    assert "payload_kind: 'gradients'" in refused.reason


def test_statistics_are_refused_while_a_network_is_trained() -> None:
    bench = RoundBench()
    bench.lead()
    body = contribution("sums", method="rounds", lineage=NETWORK.digest)
    refused = receipt(bench.message("dev-1", body)).answer
    assert isinstance(refused, Refused)
    assert "answer one" in refused.reason


def test_answers_that_cannot_be_averaged_end_their_round() -> None:
    bench = RoundBench()
    bench.lead()
    bench.whole_round(1)
    bench.handle(RoundNotAveraged(1, "tensor 'w': out of range"))
    (failed,) = bench.told(RoundFailed)
    assert isinstance(failed, RoundFailed)
    assert "out of range" in failed.reason
    order = bench.orders(bench.wait(5))["dev-1"]
    assert (order.number, order.round_of_stage) == (2, 1)


def test_a_network_with_a_successor_freezes_and_the_stage_goes_on_with_statistics() -> None:
    bench = RoundBench(per_first_stage=1)
    successor = Successor(method="stsa", settings={})
    bench.lead(NETWORK.model_copy(update={"successor": successor}))
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    freeze = bench.asked_for(FreezeNetwork)
    assert isinstance(freeze, FreezeNetwork)
    assert freeze.weights.weights.digest == Digest.of(b"weights 1")
    told = sent(bench.handle(BACKBONE), Assignment)
    assert len(told) == 3
    assignment = told[0]
    assert isinstance(assignment, Assignment)
    assert (assignment.frozen, assignment.round, assignment.stage) == (BACKBONE.frozen, None, 1)
    assert bench.core.state.stages.open == 1
    part = contribution("sums", part=2)
    assert isinstance(bench.give("dev-1", part).answer, Accepted)
    assert bench.core.state.contributions.inputs()


def test_statistics_after_a_freeze_have_the_whole_deadline_of_a_stage() -> None:
    bench = RoundBench(per_first_stage=1)
    successor = Successor(method="stsa", settings={})
    bench.lead(NETWORK.model_copy(update={"successor": successor}))
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.wait(50)
    bench.average(request)
    bench.handle(BACKBONE)
    bench.wait(9)
    assert not bench.told(StageClosed)
    bench.wait(1)
    assert bench.told(StageClosed)


def test_phases_come_in_their_order_and_each_is_a_round() -> None:
    bench = RoundBench(per_stage=2)
    phases = {"round_phases": ("train", "distil"), "closing_phases": ("fisher",)}
    bench.lead(NETWORK.model_copy(update=phases))
    for number, phase in enumerate(("train", "distil", "train", "distil", "fisher"), start=1):
        (order, *_) = bench.orders(bench.born("dev-1", capabilities=ABLE)).values()
        assert (order.number, order.phase, order.rounds_of_stage) == (number, phase, 5)
        answer = RoundAnswer(number=number, phase=phase, samples=3, steps=1, seconds=0)
        for device in bench.devices:
            bench.answer(device, number, round=answer)
        bench.wait(0)
        request = bench.asked_for(AverageRound)
        assert isinstance(request, AverageRound)
        bench.average(request)
        bench.wait(0)
    assert len(bench.told(StageClosed)) == 1


def test_extras_that_a_mean_gives_travel_with_the_orders_after_it() -> None:
    bench = RoundBench()
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    extras = {"old-model": offer("old model")}
    bench.handle(averaged(request).model_copy(update={"extras": extras}))
    assert bench.orders(bench.wait(0))["dev-1"].extras == extras


def pruned(requests: list[Request]) -> list[Digest]:
    return [d for r in requests if isinstance(r, PruneBlobs) for d in r.digests]


def digests(*texts: str) -> list[Digest]:
    return [Digest.of(text.encode()) for text in texts]


def test_answers_are_deleted_when_their_round_is_done() -> None:
    bench = RoundBench(quorum=0.6)
    bench.lead()
    bench.answer("dev-1")
    bench.answer("dev-2")
    assert not pruned(bench.wait(100))
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    assert pruned(bench.average(request)) == digests("dev-1", "dev-2")
    bench.wait(0)
    bench.answer("dev-1", 2)
    assert pruned(bench.wait(100)) == digests("dev-1"), "it came to nothing"


def test_late_answers_are_deleted_at_once_but_not_under_those_that_count() -> None:
    bench = RoundBench()
    bench.lead()
    bench.answer("dev-1")
    bench.answer("dev-2")
    bench.wait(100)
    late = update_of(1, "late")
    bench.message("dev-3", late)
    stored = bench.handle(inputs.PayloadOutcome(DeviceId("dev-3"), late))
    assert pruned(stored) == digests("late")
    same = RoundBench()
    same.lead()
    same.answer("dev-1")
    same.answer("dev-2")
    same.wait(100)
    twin = update_of(1, "dev-1")
    same.message("dev-3", twin)
    assert not pruned(same.handle(inputs.PayloadOutcome(DeviceId("dev-3"), twin)))


def test_retention_never_takes_what_devices_or_models_need() -> None:
    behind = FrozenBackbone(name="b", frozen=offer("backbone"), feature_width=64)
    bench = RoundBench(quorum=0.6)
    network = NETWORK.model_copy(update={"backbone": behind})
    bench.lead(network)
    bench.answer("dev-1", text="backbone", lineage=network.digest)
    bench.answer("dev-2", text="golden", lineage=network.digest)
    bench.answer("dev-3", text="first weights", lineage=network.digest)
    bench.wait(0)
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    assert not pruned(bench.average(request))
    bench.wait(0)
    bench.answer("dev-1", 2, text="weights 1", lineage=network.digest)
    bench.answer("dev-2", 2, lineage=network.digest)
    bench.wait(100)
    late = update_of(2, "backbone", lineage=network.digest)
    bench.message("dev-3", late)
    assert not pruned(bench.handle(inputs.PayloadOutcome(DeviceId("dev-3"), late)))
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    assert pruned(bench.average(request)) == digests("dev-2")


def test_answers_are_kept_where_the_operator_wants_them() -> None:
    bench = RoundBench(retention="all")
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    assert not pruned(bench.average(request))


def test_the_state_is_a_fold_of_the_ledger() -> None:
    bench = RoundBench()
    bench.lead()
    request = bench.whole_round(1)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.wait(0)
    bench.answer("dev-2", 2)
    replayed = Core(bench.rules, can_learn=lambda *_: True)
    for body, device, time_ns in bench.entries:
        replayed.state.apply(body, device, time_ns)
    assert replayed.state == bench.core.state


def test_round_answers_are_no_parts_that_a_device_could_be_asked_to_withdraw() -> None:
    bench = RoundBench()
    bench.lead()
    bench.answer("dev-1")
    state, device = bench.core.state, DeviceId("dev-1")
    assert state.contributions.of(device).held_parts() == []
    (welcome,) = sent(bench.born("dev-1"), Welcome)
    assert welcome.next_part == 2
    assert update_of(1, "dev-1").payload == state.rounds.of(device).answers[1].payload
