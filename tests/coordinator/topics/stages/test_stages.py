"""A stage closes on quorum and quiet time, or on its deadline; opening one names its classes."""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.rules import Rules, StageRules
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import BACKBONE, CAPABLE, Bench, contribution, names, sent

RULES = Rules(stages=StageRules(quorum=1.0, quiet_seconds=10, deadline_seconds=100))


def closed(bench: Bench, stage: int = 1) -> bool:
    return bench.core.state.stages.by_number[stage].closed_index is not None


def test_a_stage_needs_a_frozen_model_first() -> None:
    answer = Bench().command(OpenStage(class_names=names("cat")))
    assert not answer.done
    assert "import-backbone" in answer.text


def test_opening_a_stage_names_new_classes_once_and_tells_every_device() -> None:
    bench = Bench()
    bench.begin("dev-1", "dev-2", classes=("cat", "dog"))
    assert bench.core.state.classes.indices == {"cat": 0, "dog": 1}
    bench.command(OpenStage(class_names=names("dog", "eel")))
    assert bench.core.state.classes.indices == {"cat": 0, "dog": 1, "eel": 2}
    requests = bench.born("dev-1")
    (assignment,) = sent(requests, Assignment)
    assert isinstance(assignment, Assignment)
    assert assignment.stage == 2
    assert assignment.stage_class_names == names("dog", "eel")
    assert assignment.lineage == BACKBONE.frozen.digest


def test_a_new_class_is_told_with_its_stage_and_not_before() -> None:
    bench = Bench()
    bench.begin("dev-1")
    opening = OpenStage(class_names=names("eel", "fox"))
    assignments = sent(bench.handle(inputs.OperatorCommand("ticket", opening)), Assignment)
    assert [body.stage for body in assignments if isinstance(body, Assignment)] == [2]


def test_a_later_assignment_has_a_higher_action_number() -> None:
    bench = Bench()
    bench.begin("dev-1")
    (first,) = sent(bench.born("dev-1"), Assignment)
    bench.command(OpenStage(class_names=names("eel")))
    (second,) = sent(bench.born("dev-1"), Assignment)
    assert isinstance(first, Assignment)
    assert isinstance(second, Assignment)
    assert second.action > first.action


def test_a_name_given_twice_is_refused() -> None:
    bench = Bench()
    bench.begin("dev-1")
    assert "twice" in bench.command(OpenStage(class_names=names("x", "x"))).text


def test_a_stage_closes_after_quiet_time_once_every_device_answered() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a"))
    bench.wait(50)
    assert not closed(bench)
    bench.message("dev-2", Nothing(stage=1))
    bench.wait(9)
    assert not closed(bench)
    bench.wait(1)
    assert closed(bench)


def test_a_further_answer_starts_the_quiet_time_anew() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1")
    bench.give("dev-1", contribution("a"))
    bench.wait(9)
    bench.give("dev-1", contribution("b", part=1))
    bench.wait(9)
    assert not closed(bench)
    bench.wait(1)
    assert closed(bench)


def test_the_deadline_closes_a_stage_that_nobody_answered() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1")
    bench.wait(99)
    assert not closed(bench)
    bench.wait(1)
    assert closed(bench)
    assert "deadline" in bench.entries[-1][0].model_dump()["reason"]


def test_a_quorum_below_one_does_not_wait_for_all() -> None:
    bench = Bench(Rules(stages=StageRules(quorum=0.5, quiet_seconds=1, deadline_seconds=100)))
    bench.begin("dev-1", "dev-2", "dev-3")
    bench.give("dev-1", contribution("a"))
    bench.wait(5)
    assert not closed(bench)
    bench.give("dev-2", contribution("b"))
    bench.wait(1)
    assert closed(bench)


def test_a_device_that_cannot_run_the_method_is_not_waited_for() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2")
    unable = Capabilities.model_validate(CAPABLE.model_dump() | {"features": frozenset({"numpy"})})
    bench.born("dev-2", capabilities=unable)
    bench.give("dev-1", contribution("a"))
    bench.wait(10)
    assert closed(bench)


def test_the_operator_can_close_a_stage_and_the_next_one_closes_the_last() -> None:
    bench = Bench()
    bench.begin("dev-1")
    assert bench.command(CloseStage()).done
    assert not bench.command(CloseStage()).done
    bench.command(OpenStage(class_names=names("eel")))
    bench.command(OpenStage(class_names=names("fox")))
    assert closed(bench, 2)
    assert not closed(bench, 3)


def test_a_device_admitted_after_its_birth_gets_its_assignment_when_it_is_admitted() -> None:
    bench = Bench()
    bench.begin("dev-1")
    bench.born("late")
    admitted = bench.command(AdmitDevice(device=DeviceId("late")))
    assert admitted.done
    assert sent(bench.born("late"), Assignment)


def test_more_names_than_an_assignment_can_carry_are_refused() -> None:
    bench = Bench()
    bench.begin("dev-1")
    long_names = tuple(f"{number:04d}" + "x" * 90 for number in range(500))
    answer = bench.command(OpenStage(class_names=names(*long_names)))
    assert not answer.done
    assert "47006 bytes" in answer.text
    assert bench.core.state.stages.current == 1


def test_no_device_may_have_the_name_of_the_coordinator() -> None:
    answer = Bench().command(AdmitDevice(device=DeviceId("coordinator")))
    assert not answer.done
    assert "coordinator's own name" in answer.text
