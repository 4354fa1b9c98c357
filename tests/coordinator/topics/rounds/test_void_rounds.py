"""Rounds that come to nothing: growing pauses, and an end that names what was refused."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.due_times import next_due
from fleetledger.coordinator.core.rules import RoundRules, Rules
from fleetledger.coordinator.core.work import AverageRound, RoundNotAveraged, TakePayload
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.rounds.commands import ResumeRounds
from fleetledger.coordinator.topics.rounds.entries import (
    RoundClosed,
    RoundOpened,
    RoundsResumed,
    RoundsStopped,
)
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.presence import Death
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import CAPABLE, SECOND, names, sent
from tests.coordinator.core.phase_bench import SHARING, TWO_PHASES, PhaseBench
from tests.coordinator.core.round_bench import ABLE, RoundBench, update_of

DIVERGED = "training: weights are not finite; train with a lower rate"
PAUSES = {"pause_seconds": 5.0, "longest_pause_seconds": 12.0, "void_rounds": 3}


class VoidBench(PhaseBench):
    """Rounds of which nothing comes."""

    def __init__(self, devices: int = 3, **rules: object) -> None:
        super().__init__(devices, **{**PAUSES, **rules})

    def decline_all(self, *devices: str, reason: str = DIVERGED) -> None:
        """Let those whom the newest round asks say why they give nothing; it closes."""
        for device in devices or self.opened.cohort:
            self.decline(device, self.opened.number, reason)
        self.wait(0)

    def next_round(self, *, most: float = 1000.0) -> int:
        """Let time pass from one due moment to the next until a round opens; return its number."""
        before, end = self.opened.number, self.now_ns + int(most * SECOND)
        self.wait(0)
        while self.opened.number == before:
            moment = next_due(self.rules, self.core.state, self.core.live, self.now_ns)
            assert moment is not None, "nothing is due"
            assert moment <= end, "no round opened"
            self.now_ns = moment
            self.wait(0)
        return self.opened.number

    def stop(self) -> RoundsStopped:
        """Let rounds come to nothing until the stage stops."""
        for _ in range(2):
            self.decline_all()
            self.next_round()
        self.decline_all()
        self.wait(0)
        return self.stopped

    @property
    def stopped(self) -> RoundsStopped:
        (body,) = self.told(RoundsStopped)
        assert isinstance(body, RoundsStopped)
        return body

    def is_quiet(self, seconds: float = 1e6) -> bool:
        """Whether no round opens for so long."""
        before = len(self.entries)
        for _ in range(5):
            self.wait(seconds / 5)
        return len(self.entries) == before


def test_a_stage_whose_rounds_come_to_nothing_stops_and_says_what_was_refused_by_whom() -> None:
    bench = VoidBench()
    bench.lead()
    stopped = bench.stop()
    assert stopped.numbers == (1, 2, 3)
    assert "dev-1, dev-2, dev-3" in stopped.reason
    assert DIVERGED in stopped.reason
    assert "resume-rounds" in stopped.reason
    assert bench.is_quiet()
    assert len(bench.told(RoundOpened)) == 3
    assert bench.core.state.stages.open == 1


def test_pauses_double_up_to_a_limit_and_are_the_moments_at_which_the_core_wants_to_look() -> None:
    bench = VoidBench(void_rounds=100)
    bench.lead()
    pauses = []
    for _ in range(4):
        bench.decline_all()
        before = bench.now_ns
        bench.next_round()
        pauses.append(round((bench.now_ns - before) / SECOND, 3))
    assert pauses == [5.0, 10.0, 12.0, 12.0]


def test_a_round_that_gives_something_ends_the_row() -> None:
    bench = VoidBench(per_stage=5)
    bench.lead()
    for _ in range(2):
        bench.decline_all()
        bench.next_round()
    request = bench.whole_round(bench.opened.number)
    assert isinstance(request, AverageRound)
    bench.average(request)
    bench.wait(0)
    for _ in range(2):
        bench.decline_all()
        before = bench.now_ns
        bench.next_round()
    assert (bench.now_ns - before) / SECOND == pytest.approx(10.0, abs=0.01)
    assert not bench.told(RoundsStopped)


def test_answers_that_are_refused_count_and_are_named_with_the_reason() -> None:
    bench = VoidBench()
    bench.lead()
    for number in (1, 2, 3):
        for device in bench.devices:
            taken = bench.message(device, update_of(number, f"{device} {number}"))
            (request,) = [r for r in taken if isinstance(r, TakePayload)]
            refused = inputs.PayloadOutcome(
                DeviceId(device), request.contribution, "unusable", "weights: NaN in conv1"
            )
            bench.handle(refused)
        bench.wait(100)
        if number < 3:
            assert bench.next_round() == number + 1
    bench.wait(0)
    closed = bench.told(RoundClosed)[-1]
    assert isinstance(closed, RoundClosed)
    assert closed.refused == {"weights: NaN in conv1": bench.devices}
    assert closed.missing == bench.devices
    assert "dev-1, dev-2, dev-3: weights: NaN in conv1" in bench.stopped.reason


def test_answers_that_cannot_be_averaged_count() -> None:
    bench = VoidBench(per_stage=9)
    bench.lead()
    for number in (1, 2, 3):
        bench.whole_round(number)
        bench.handle(RoundNotAveraged(number, "the mean is not finite"))
        bench.wait(0)
        if number < 3:
            bench.next_round()
    assert "the mean is not finite" in bench.stopped.reason


def test_a_fleet_that_sleeps_is_not_stopped_whatever_one_of_it_says() -> None:
    bench = VoidBench(devices=4)
    bench.lead()
    for _ in range(10):
        bench.decline("dev-1", bench.opened.number, DIVERGED)
        bench.wait(100)
        bench.next_round()
    assert not bench.told(RoundsStopped)


def test_devices_without_images_do_not_stop_a_stage() -> None:
    bench = VoidBench()
    bench.lead()
    for _ in range(10):
        bench.decline_all(reason="")
        bench.next_round()
    assert not bench.told(RoundsStopped)


def test_the_operator_lets_it_try_again_at_once_and_as_often_as_before() -> None:
    bench = VoidBench()
    bench.lead()
    assert "have not stopped" in bench.command(ResumeRounds()).text
    bench.stop()
    assert bench.command(ResumeRounds()).done
    bench.wait(0)
    assert bench.opened.number == 4
    for _ in range(2):
        bench.decline_all()
        bench.next_round()
    assert len(bench.told(RoundsStopped)) == 1
    bench.decline_all()
    bench.wait(0)
    assert len(bench.told(RoundsStopped)) == 2


def test_with_other_settings_it_tries_again() -> None:
    bench = VoidBench()
    bench.lead()
    bench.stop()
    rules = bench.rules.rounds.model_copy(update={"cohort": 2})
    bench.rules = Rules(rounds=rules, stages=bench.rules.stages)
    bench.restart()
    for device in bench.devices:
        bench.born(device, capabilities=ABLE)
    bench.wait(0)
    bench.wait(0)
    (resumed,) = bench.told(RoundsResumed)
    assert isinstance(resumed, RoundsResumed)
    assert "settings" in resumed.reason
    assert bench.opened.number == 4


def test_a_restart_alone_does_not_set_a_stopped_stage_going_and_nor_do_those_refused() -> None:
    bench = VoidBench()
    bench.lead()
    bench.stop()
    bench.restart()
    for device in bench.devices:
        bench.born(device, capabilities=ABLE)
    assert bench.is_quiet()
    stopped = bench.core.state.rounds.void.stopped
    assert stopped is not None
    assert stopped.reason == bench.stopped.reason


@pytest.mark.parametrize("again", [False, True])
def test_a_device_of_which_nothing_was_refused_sets_it_going(again: bool) -> None:
    bench = VoidBench()
    bench.lead()
    if again:  # it was there before, and slept
        bench.command(AdmitDevice(device=DeviceId("late")))
        bench.born("late", capabilities=ABLE)
        bench.message("late", Death())
    bench.stop()
    if not again:
        bench.command(AdmitDevice(device=DeviceId("late")))
        bench.born("late", capabilities=CAPABLE)  # without torch
        assert bench.is_quiet()
    bench.born("late", capabilities=ABLE)
    bench.wait(0)
    (resumed,) = bench.told(RoundsResumed)
    assert isinstance(resumed, RoundsResumed)
    assert "late" in resumed.reason
    bench.next_round(most=12.1)
    assert "late" in bench.opened.cohort


def test_a_device_that_comes_and_goes_keeps_the_pauses_long() -> None:
    bench = VoidBench()
    bench.lead()
    bench.stop()
    bench.command(AdmitDevice(device=DeviceId("late")))
    started = bench.now_ns
    for _ in range(20):
        bench.born("late", capabilities=ABLE)
        bench.wait(0)
        bench.next_round()
        bench.message("late", Death())
        bench.decline_all(*bench.devices)
        if bench.core.state.rounds.current is not None:
            bench.wait(100)
        bench.wait(0)
    assert (bench.now_ns - started) / SECOND > 19 * 12


def test_a_device_that_has_come_ends_a_pause_that_had_grown() -> None:
    bench = VoidBench(void_rounds=100, pause_seconds=5.0, longest_pause_seconds=1000.0)
    bench.lead()
    for _ in range(6):
        bench.decline_all()
        bench.next_round()
    bench.decline_all()
    bench.command(AdmitDevice(device=DeviceId("late")))
    bench.born("late", capabilities=ABLE)
    bench.wait(4.9)
    assert bench.opened.number == 7
    bench.wait(0.1)
    assert "late" in bench.opened.cohort


def test_where_everybody_declines_to_share_the_phase_stops_with_what_owners_said() -> None:
    bench = VoidBench()
    bench.lead(SHARING)
    for _ in range(2):
        bench.decline_all(reason="policy.publish_images = false")
        bench.next_round()
    bench.decline_all(reason="policy.publish_images = false")
    bench.wait(0)
    assert "'share'" in bench.stopped.reason
    assert "policy.publish_images = false" in bench.stopped.reason


def test_a_later_phase_that_comes_to_nothing_counts_though_the_phase_before_it_gives() -> None:
    bench = VoidBench()
    bench.lead(TWO_PHASES)
    for left in (2, 1, 0):
        bench.finish_phase()
        assert bench.opened.phase == "distil"
        bench.decline_all(reason="distil: no such file")
        if left:
            bench.next_round()
    bench.wait(0)
    assert bench.stopped.numbers == (2, 4, 6)
    assert "'distil'" in bench.stopped.reason


def test_the_next_stage_begins_without_the_stop_of_the_one_before() -> None:
    bench = VoidBench()
    bench.lead()
    bench.stop()
    requests = bench.handle(inputs.OperatorCommand("next", OpenStage(class_names=names("eel"))))
    assert sent(requests, Assignment)
    bench.wait(0)
    assert bench.opened.stage == 2
    assert bench.core.state.rounds.void.stopped is None


def test_a_ledger_replays_to_the_same_stop_and_one_from_before_to_none() -> None:
    bench = VoidBench()
    bench.lead()
    bench.stop()
    void = bench.core.state.rounds.void
    bench.restart()
    again = bench.core.state.rounds.void
    assert [item.opened.number for item in again.rounds] == [1, 2, 3]
    assert again.stopped == void.stopped
    old = RoundBench()
    old.lead()
    for body, device, time_ns in bench.entries[len(old.entries) :]:
        if not isinstance(body, RoundsStopped):
            old.core.state.apply(body, device, time_ns)
    assert old.core.state.rounds.void.stopped is None


def test_the_defaults_stop_after_five() -> None:
    assert (RoundRules().void_rounds, RoundRules().longest_pause_seconds) == (5, 900.0)
