"""The state machine of rollouts: group by group, as long as nothing speaks against it."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.topics.devices.commands import TagDevices
from fleetledger.coordinator.topics.models.commands import GoBack, PinDevices, PushModel
from fleetledger.coordinator.topics.models.entries import ModelDesired
from fleetledger.coordinator.topics.rollouts.commands import (
    ApproveGroup,
    EndRollout,
    PauseRollout,
    PlanRollout,
    ResumeRollout,
    StartRollout,
)
from fleetledger.coordinator.topics.rollouts.entries import (
    GroupOpened,
    RolloutAborted,
    RolloutMeasured,
    RolloutPaused,
    RolloutRolledBack,
)
from fleetledger.schemas.rollouts import LocalHours, Pairs
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.values import DeviceId
from tests.coordinator.topics.rollouts.rollout_bench import BAD, GOOD, SMALL, RolloutBench, plan

SOAK = 61
SHOWN = SMALL.model_copy(update={"better": 2.0})


def begun(devices: int = 10, **changes: object) -> RolloutBench:
    bench = RolloutBench()
    bench.fleet(devices)
    bench.begin_rollout(**changes)
    return bench


def soak(bench: RolloutBench) -> None:
    bench.wait(SOAK)
    bench.settle()


def last(bench: RolloutBench, kind: type) -> object:
    return next(body for body, *_ in reversed(bench.entries) if isinstance(body, kind))


def in_shares(bench: RolloutBench) -> list[int]:
    """How many devices there are in each of the groups so far."""
    return [len(bench.offered(group)) for group in (1, 2, 3)]


def test_a_good_model_goes_to_one_device_then_half_then_all() -> None:
    bench = RolloutBench()
    devices = bench.fleet(10)
    rollout = bench.begin_rollout()
    assert in_shares(bench) == [1, 0, 0]
    bench.all_answer(1)
    assert rollout.stage == "soaking"
    assert len(bench.offered()) == 1
    soak(bench)
    assert 1 < len(bench.offered()) < 10
    bench.all_answer(2)
    soak(bench)
    assert bench.offered() == devices
    bench.all_answer(3)
    soak(bench)
    assert rollout.stage == "finished"
    assert bench.core.state.models.stack == [1, 2]
    assert bench.kinds == [
        "rollout.planned",
        "rollout.started",
        *("rollout.group_opened", "rollout.measured") * 3,
        "rollout.finished",
    ]


def test_a_bad_model_goes_back_everywhere_and_never_leaves_what_was_open() -> None:
    bench = begun(10, groups=(4, 1.0))
    first = bench.offered(1)
    assert len(first) == 4
    for device in first:
        bench.answers(device, BAD)
        bench.settle()
    assert bench.rollout.stage == "rolled_back"
    assert bench.kinds[-2:] == ["rollout.measured", "rollout.rolled_back"]
    assert bench.ran[2] == set(first)
    assert {told.version for told in bench.told.values()} == {1}
    assert bench.core.state.models.offers == []
    measured = last(bench, RolloutMeasured)
    assert isinstance(measured, RolloutMeasured)
    kinds = {bench.entries[index][0].kind for index in measured.entries}
    assert kinds == {"model.compared", "device.model_status"}


def test_a_gate_may_fail_while_the_group_soaks_and_while_the_rollout_is_paused() -> None:
    for pauses in (False, True):
        bench = begun(10, groups=(1, 4, 1.0))
        bench.all_answer(1)
        soak(bench)
        assert bench.rollout.stage == "running"
        if pauses:
            bench.command(PauseRollout(rollout=1))
        for device in bench.offered(2):
            bench.compares(device, BAD)
        bench.settle()
        assert bench.rollout.stage == "rolled_back"


def test_where_a_person_decides_a_failed_gate_pauses_once_and_may_be_forgiven() -> None:
    bench = begun(10, groups=(4, 1.0), on_fail="pause")
    bench.all_answer(1, BAD)
    assert bench.rollout.stage == "paused"
    bench.wait(10_000_000)
    assert bench.kinds.count("rollout.paused") == bench.kinds.count("rollout.measured") == 1
    assert bench.command(ResumeRollout(rollout=1, reason="known")).done
    bench.settle()
    assert bench.kinds[-2:] == ["rollout.resumed", "rollout.measured"]
    assert bench.rollout.stage == "soaking"
    soak(bench)
    bench.all_answer(2)
    soak(bench)
    assert bench.rollout.stage == "finished"


def test_what_one_device_alone_says_pauses() -> None:
    bench = begun(10, groups=(3, 1.0))
    one, other, third = bench.offered(1)
    bench.answers(one, BAD)
    bench.settle()
    assert bench.rollout.stage == "running"
    bench.answers(other, BAD)
    bench.settle()
    assert bench.rollout.stage == "paused"
    assert "one device" in last(bench, RolloutPaused).reason  # type: ignore[attr-defined]
    bench.answers(third, BAD)
    bench.settle()
    assert bench.rollout.stage == "rolled_back"  # by now it rests on none of them


def test_too_little_is_for_a_person_but_not_in_the_first_group() -> None:
    bench = begun(10, gates={"min_devices": 1, "min_images": 50})
    bench.all_answer(1)
    assert bench.rollout.stage == "soaking"
    soak(bench)
    for device in bench.offered(2):
        bench.answers(device, Pairs())
    bench.settle()
    assert bench.rollout.stage == "paused"
    measured = last(bench, RolloutMeasured)
    assert isinstance(measured, RolloutMeasured)
    assert measured.outcome == "inconclusive"
    assert not measured.deadline
    bench.command(ResumeRollout(rollout=1))
    bench.settle()
    assert bench.rollout.stage == "soaking"
    soak(bench)
    bench.all_answer(3, Pairs())
    assert bench.rollout.stage == "paused"  # what was overlooked was so in that group alone


def test_at_its_deadline_a_group_is_judged_by_what_came() -> None:
    bench = begun(10, deadline_hours=1.0)
    bench.wait(3599)
    assert bench.rollout.last is None
    bench.wait(2)
    bench.settle()
    assert bench.rollout.stage == "paused"
    measured = last(bench, RolloutMeasured)
    assert isinstance(measured, RolloutMeasured)
    assert (measured.outcome, measured.deadline) == ("inconclusive", True)
    bench.command(ResumeRollout(rollout=1))
    bench.wait(1)
    assert bench.rollout.stage == "running"  # the time counts anew
    bench.all_answer(1)
    assert bench.rollout.stage == "soaking"


def test_late_joiners_fall_into_groups_that_are_open() -> None:
    bench = begun(4, groups=(3, 1.0))
    bench.all_answer(1)
    for number in range(20):
        bench.join(f"late-{number}")
    assert 3 < len(bench.offered(1)) < 24  # those whose places are low enough
    assert bench.rollout.stage == "soaking"
    soak(bench)
    assert len(bench.offered()) == 24
    bench.join("very-late")
    assert "very-late" in bench.offered(2)
    bench.all_answer(2)
    assert bench.rollout.stage == "soaking"
    soak(bench)
    bench.join("last")
    assert bench.rollout.stage == "finished"
    assert bench.told[DeviceId("last")].version == 2


def test_a_device_that_is_away_is_unreached_and_counts_when_it_comes_back() -> None:
    bench = begun(10)
    bench.all_answer(1)
    soak(bench)
    gone, *others = bench.offered(2)
    bench.leaves(gone)
    for device in others:
        bench.answers(device)
    bench.wait(99)
    assert bench.rollout.stage == "running"
    bench.wait(2)
    bench.settle()
    assert bench.kinds[-2:] == ["rollout.unreached", "rollout.measured"]
    assert bench.rollout.stage == "soaking"
    bench.comes(gone)
    bench.answers(gone, BAD)
    assert DeviceId(gone) in bench.rollout.evidence.comparisons
    assert bench.rollout.evidence.failed == set()


@pytest.mark.parametrize("state", ["failed", "rolled_back"])
def test_a_device_that_fails_gets_it_again_later_and_later(state: str) -> None:
    bench = begun(10, groups=(4, 1.0), retries=2, retry_seconds=100.0, deadline_hours=1000.0)
    one, *others = bench.offered(1)
    for device in others:
        bench.answers(device)
    for wait in (100, 200):
        action = bench.told[DeviceId(one)].action
        bench.says(one, state)
        bench.wait(wait - 1)
        assert bench.told[DeviceId(one)].action == action
        bench.wait(2)
        told = bench.told[DeviceId(one)]
        assert told.action > action
        assert (told.rollout, told.group, told.version) == (1, 1, 2)
    bench.settle()
    assert bench.rollout.stage == "running"
    bench.answers(one)
    bench.settle()
    assert bench.rollout.stage == "soaking"
    assert bench.rollout.evidence.failed == set()


def test_a_device_that_goes_on_failing_is_done_and_no_more_than_one_may() -> None:
    bench = begun(10, groups=(4, 1.0))
    one, two, *others = bench.offered(1)
    bench.says(one, "failed")
    for device in others:
        bench.answers(device)
    bench.settle()
    assert bench.rollout.stage == "running"  # one is still to be heard
    bench.says(two, "rolled_back")
    bench.settle()
    assert bench.rollout.stage == "paused"  # it rests on one of the two
    bench.says(others[0], "rolled_back")
    bench.settle()
    assert bench.rollout.stage == "rolled_back"


def test_it_goes_on_where_exactly_as_many_fail_as_may() -> None:
    gates = {"min_devices": 1, "min_images": 1, "failed_devices": 1, "failed_share": 0.0}
    bench = begun(10, groups=(4, 1.0), gates=gates)
    one, *others = bench.offered(1)
    bench.says(one, "failed")
    for device in others:
        bench.answers(device)
    bench.settle()
    assert bench.rollout.stage == "soaking"


def test_a_model_that_crashes_never_leaves_the_first_group() -> None:
    bench = begun(10)
    (one,) = bench.offered()
    bench.says(one, "rolled_back")
    bench.settle()
    assert bench.rollout.stage == "paused"
    assert bench.ran[2] == {one}
    assert bench.command(EndRollout(rollout=1, back=True)).done
    assert {told.version for told in bench.told.values()} == {1}


def test_candidates_are_compared_before_the_first_group_runs_them() -> None:
    bench = begun(10, shadow="first", groups=(2, 1.0), hours={"begins": 60, "ends": 120})
    one, two = bench.offered(1)
    told = bench.told[DeviceId(one)]
    assert (told.mode, told.settle_seconds, told.hours) == (
        "shadow",
        10.0,
        LocalHours(begins=60, ends=120),
    )
    assert 2 not in bench.ran
    bench.answers(one)
    assert bench.rollout.stage == "running"
    bench.answers(two)
    bench.settle()
    opened = [body for body, *_ in bench.entries if isinstance(body, GroupOpened)]
    assert [(body.group, body.mode) for body in opened] == [(1, "shadow"), (1, "run")]
    assert bench.ran[2] == {one, two}
    for device in (one, two):  # what was measured before the switch needs no second time
        bench.says(device, "active")
        bench.says(device, "settled")
    bench.settle()
    assert bench.rollout.stage == "soaking"
    soak(bench)
    assert bench.rollout.phase is not None
    assert (bench.rollout.phase.group, bench.rollout.phase.mode) == (2, "run")


def test_a_device_that_has_nothing_to_compare_with_is_not_waited_for() -> None:
    bench = begun(10, shadow="first", groups=(2, 1.0))
    one, two = bench.offered(1)
    bench.answers(one)
    bench.says(two, "shadowing", previous_version=None)
    bench.settle()
    assert bench.rollout.phase is not None
    assert bench.rollout.phase.mode == "run"


def test_a_group_of_nobody_new_is_left_out() -> None:
    bench = begun(3, groups=(1, 0.000001, 0.000002, 1.0), gates={"min_images": 0})
    bench.all_answer(1)
    soak(bench)
    assert bench.rollout.phase is not None
    assert bench.rollout.phase.group == 4


def test_groups_wait_for_devices_that_are_there() -> None:
    bench = RolloutBench()
    devices = bench.fleet(3)
    for device in devices:
        bench.leaves(device)
    bench.begin_rollout(groups=(1, 1.0))
    assert bench.rollout.phase is None
    bench.comes(devices[1])
    bench.settle()
    assert devices[1] in bench.offered(1)


def test_the_operator_lets_each_group_go() -> None:
    bench = begun(10, approve="operator")
    assert bench.rollout.phase is None
    for group in (1, 2, 3):
        answer = bench.command(ApproveGroup(rollout=1))
        assert f"group {group} of rollout 1 may go" in answer.text
        bench.settle()
        bench.all_answer(group)
        assert bench.rollout.stage == "soaking"
        soak(bench)
    assert bench.rollout.stage == "finished"


def test_a_rollout_begins_when_it_is_to() -> None:
    bench = RolloutBench()
    bench.fleet(3)
    bench.command(PlanRollout(version=2, plan=plan()))
    soak(bench)
    assert bench.rollout.stage == "planned"
    later = bench.now_ns + 500 * 10**9
    assert bench.command(StartRollout(rollout=1, begins_ns=later)).done
    bench.wait(499)
    assert bench.rollout.phase is None
    bench.wait(1)
    assert bench.rollout.phase is not None


def test_ending_it_keeps_what_devices_run_or_takes_all_back() -> None:
    kept, back = begun(10), begun(10)
    for bench in (kept, back):
        bench.all_answer(1)
        soak(bench)
    ran = kept.offered()
    assert kept.command(EndRollout(rollout=1, reason="no")).done
    soak(kept)
    assert kept.offered() == ran
    assert back.command(EndRollout(rollout=1, back=True, reason="no")).done
    assert back.offered() == []
    assert [kept.rollout.stage, back.rollout.stage] == ["aborted", "rolled_back"]
    assert last(back, RolloutRolledBack).to == 1  # type: ignore[attr-defined]


def test_a_newer_rollout_takes_its_place_and_devices_keep_what_they_run_until_it_reaches_them() -> (
    None
):
    bench = RolloutBench()
    bench.fleet(10, models=3)
    bench.begin_rollout(groups=(6, 1.0))
    before = bench.offered(version=2)
    assert len(before) == 6
    bench.begin_rollout(version=3, groups=(1, 1.0))
    aborted = last(bench, RolloutAborted)
    assert isinstance(aborted, RolloutAborted)
    assert aborted.by == 2
    (one,) = bench.offered(version=3)
    assert set(bench.offered(version=2)) == set(before) - {one}
    bench.all_answer_of(3)
    soak(bench)
    assert len(bench.offered(version=3)) == 10
    assert bench.core.state.rollouts.by_number[1].stage == "superseded"


@pytest.mark.parametrize(
    ("command", "version"),
    [(PushModel(version=3), 3), (GoBack(), 1)],
)
def test_what_the_operator_makes_everybodys_ends_an_open_rollout(
    command: PushModel | GoBack, version: int
) -> None:
    bench = RolloutBench()
    bench.fleet(6, models=3)
    bench.record(ModelDesired(version=3, reason="to have something to go back from"))
    bench.begin_rollout()
    answer = bench.command(command)
    assert answer.done
    assert "rollout 1 is ended" in answer.text
    assert bench.rollout.stage == "aborted"
    assert {told.version for told in bench.told.values()} == {version}


def test_a_push_to_single_devices_ends_nothing_and_they_are_no_members() -> None:
    bench = RolloutBench()
    bench.fleet(6, models=3)
    bench.begin_rollout(groups=(3, 1.0))
    one, *others = bench.offered(1)
    assert bench.command(PushModel(version=3, devices=(DeviceId(one),))).done
    assert bench.rollout.stage == "running"
    for device in others:
        bench.answers(device)
    bench.settle()
    assert bench.rollout.stage == "soaking"
    bench.command(EndRollout(rollout=1, back=True))
    assert bench.told[DeviceId(one)].version == 3  # going back spares it


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (PlanRollout(version=9), "not a model"),
        (PlanRollout(version=1), "is to run 1 already"),
        (PlanRollout(version=2, plan=plan(approve="release-key")), "without a root"),
        (StartRollout(rollout=1), "is running"),
        (StartRollout(rollout=7), "none of this fleet"),
        (ApproveGroup(rollout=1), "nobody has to"),
        (ResumeRollout(rollout=1), "is not paused"),
        (PauseRollout(rollout=2), "has not begun"),
        (EndRollout(rollout=3), "is none of this fleet"),
    ],
)
def test_what_cannot_be_done_is_said(command: PlanRollout, why: str) -> None:
    bench = begun(4)
    bench.command(PlanRollout(version=2, plan=plan()))
    size = bench.core.state.size
    answer = bench.command(command)
    assert not answer.done
    assert why in answer.text
    assert bench.core.state.size == size


def test_a_rollout_that_was_planned_on_something_else_is_not_begun() -> None:
    bench = RolloutBench()
    bench.fleet(4, models=3)
    bench.command(PlanRollout(version=2, plan=plan()))
    bench.command(PushModel(version=3))
    answer = bench.command(StartRollout(rollout=1))
    assert not answer.done
    assert "plan it anew" in answer.text
    assert bench.command(EndRollout(rollout=1)).done


def test_the_first_model_of_a_fleet_has_nothing_to_go_back_to() -> None:
    bench = RolloutBench()
    bench.fleet(4, models=0)
    bench.make(1)
    bench.begin_rollout(version=1, groups=(3, 1.0), shadow="all")
    for device in bench.offered(1, version=1):
        bench.says(device, "failed", version=1)
    bench.settle()
    assert bench.rollout.stage == "rolled_back"
    assert last(bench, RolloutRolledBack).to is None  # type: ignore[attr-defined]


def test_at_most_the_first_group_and_what_was_under_way_ever_ran_a_bad_model() -> None:
    bench = begun(60, groups=(3, 0.2, 1.0))
    bench.all_answer(1, BAD)
    soak(bench)
    assert len(bench.ran[2]) == 3
    good = begun(60, groups=(3, 0.2, 1.0))
    good.all_answer(1, GOOD)
    soak(good)
    second = good.offered(2)
    for device in second[:4]:
        good.answers(device, BAD)
        good.settle()
    soak(good)
    assert good.rollout.stage == "rolled_back"
    assert len(good.ran[2]) == 3 + len(second)


def test_a_rollout_of_tagged_devices_leaves_others_alone_and_ends_with_them() -> None:
    bench = RolloutBench()
    devices = bench.fleet(8)
    chosen, others = devices[:4], devices[4:]
    put = {TagName("site"): TagValue("orchard")}
    bench.command(TagDevices(devices=tuple(map(DeviceId, chosen[:3])), put=put))
    bench.begin_rollout(groups=(1, 1.0), tags=({"name": "site"},))
    bench.all_answer(1)
    soak(bench)
    bench.command(TagDevices(devices=(DeviceId(chosen[3]),), put=put))
    assert bench.offered() == chosen
    bench.all_answer(2)
    soak(bench)
    assert bench.rollout.stage == "finished"
    assert {bench.told[DeviceId(device)].version for device in others} == {1}
    bench.command(TagDevices(devices=(DeviceId(chosen[0]),), removed=(TagName("site"),)))
    assert bench.told[DeviceId(chosen[0])].version == 1


def test_a_pinned_device_is_no_member() -> None:
    bench = RolloutBench()
    devices = bench.fleet(4)
    bench.command(PinDevices(devices=(DeviceId(devices[0]),), version=1))
    bench.begin_rollout(groups=(3, 1.0))
    assert bench.offered(1) == devices[1:]
    bench.command(PinDevices(devices=(DeviceId(devices[1]),), version=1))
    for device in devices[2:]:
        bench.answers(device)
    bench.settle()
    assert bench.rollout.stage == "soaking"
    bench.command(EndRollout(rollout=1, back=True))
    assert {told.version for told in bench.told.values()} == {1}


@pytest.mark.parametrize(("on_unsure", "stage"), [("pause", "paused"), ("back", "rolled_back")])
def test_what_is_not_shown_to_be_better_waits_for_a_person_or_goes_nowhere(
    on_unsure: str, stage: str
) -> None:
    bench = begun(10, groups=(1.0,), shadow="first", gates=SHOWN, on_unsure=on_unsure)
    bench.all_answer(1)
    assert bench.rollout.stage == stage
    assert bench.ran.get(2) is None
    measured = last(bench, RolloutMeasured)
    assert isinstance(measured, RolloutMeasured)
    assert "So it is not shown to be better." in measured.reason


def test_what_is_shown_to_be_better_goes_out() -> None:
    bench = begun(10, groups=(1.0,), shadow="first", gates=SHOWN, on_unsure="back")
    for _ in range(2):
        bench.all_answer(1, Pairs(both=10, only_candidate=10))
    assert bench.ran[2] == set(bench.core.state.devices.admitted)
    soak(bench)
    assert bench.rollout.stage == "finished"
