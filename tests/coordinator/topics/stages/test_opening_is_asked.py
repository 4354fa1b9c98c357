"""Before a stage opens, an operator who can be asked is: about names, and about who is missing."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.requests import AnswerOperator
from fleetledger.coordinator.core.rules import Rules, StageRules
from fleetledger.coordinator.topics.classes.commands import RenameClass
from fleetledger.coordinator.topics.classes.entries import ClassNamed
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.coordinator.topics.stages.entries import StageOpened
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.receipts import Accepted
from fleetledger.schemas.reports import Problem, Transition, WaitingClasses
from fleetledger.schemas.values import ClassName
from tests.coordinator.core.harness import Bench, contribution, names, sent

REPORTING = Rules(stages=StageRules(open="reports", reports_quorum=1, settle_seconds=0))


def asked(bench: Bench, *classes: str) -> AnswerOperator:
    return bench.command(OpenStage(class_names=names(*classes), asks=True))


def report(bench: Bench, device: str, *classes: str, number: int = 0) -> None:
    waiting = dict.fromkeys(names(*classes), 3)
    body = Transition(stage=1, number=number, why="class name", classes=waiting)
    bench.message(device, body)


def closed_bench() -> Bench:
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    bench.command(CloseStage())
    return bench


def test_a_name_near_to_a_reported_one_is_asked_about_first() -> None:
    bench = closed_bench()
    report(bench, "dev-1", "rose")
    answer = asked(bench, "rosee")
    assert (answer.done, answer.asks) == (False, True)
    assert answer.text == "class 'rosee' is reported by no device, but 'rose' by dev-1"
    assert bench.core.state.stages.current == 1
    assert asked(bench, "rose").done


def test_who_cannot_be_asked_opens_what_is_said() -> None:
    bench = closed_bench()
    report(bench, "dev-1", "rose")
    assert bench.command(OpenStage(class_names=names("rosee"))).done


@pytest.mark.parametrize("name", ["Cat", "ca\u0442", "dogg"])
def test_what_is_no_typing_error_of_four_letters_is_not_asked_about(name: str) -> None:
    bench = closed_bench()
    expected = {"Cat": True, "ca\u0442": False, "dogg": False}[name]
    assert asked(bench, name).asks is expected


def test_a_name_like_a_class_of_the_fleet_is_asked_about_with_the_way_to_make_both_one() -> None:
    bench = closed_bench()
    bench.command(OpenStage(class_names=names("horse")))
    bench.command(CloseStage())
    assert (
        "near to the fleet's 'horse'; `fleetledger class merge SOURCE"
        in asked(bench, "horsee").text
    )
    report(bench, "dev-1", "horsee")
    assert asked(bench, "horsee").done  # a device and the operator mean the same


def test_case_alone_is_asked_about_even_where_a_device_reports_it() -> None:
    bench = closed_bench()
    report(bench, "dev-1", "Dog")
    assert "near to the fleet's 'dog'" in asked(bench, "Dog").text


def test_a_name_that_looks_like_a_class_is_asked_about() -> None:
    bench = closed_bench()
    bench.command(OpenStage(class_names=names("coco")))
    bench.command(CloseStage())
    assert "looks like 'coco'" in asked(bench, "\u0441\u043e\u0441\u043e").text


def test_a_name_that_hides_something_is_refused_whoever_says_it() -> None:
    bench = closed_bench()
    for command in (
        OpenStage(class_names=names("ca\u200bt")),
        RenameClass(old=names("cat")[0], new=names("k\u0430t")[0]),
    ):
        answer = bench.command(command)
        assert (answer.done, answer.asks) == (False, False)
        assert answer.text.startswith("class: ")
    assert (
        "'ca\\u200bt' holds U+200B" in bench.command(OpenStage(class_names=names("ca\u200bt"))).text
    )


def test_names_of_an_old_ledger_are_replayed_and_can_be_opened_again() -> None:
    bench = closed_bench()
    old = ClassName("ca\u200bt")
    bench.core.state.apply(ClassNamed(name=old, index=2))
    bench.core.state.apply(StageOpened(stage=2, class_names=(old,)))
    given = bench.give("dev-1", contribution("x", stage=2, samples={old: 2}))
    assert isinstance(given.answer, Accepted)
    assert bench.command(OpenStage(class_names=(old,))).done


def test_a_stage_with_devices_missing_is_not_closed_without_being_asked() -> None:
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a"))
    answer = asked(bench, "eel")
    assert answer.asks
    assert "1 of 2 devices has not answered yet: dev-2; the next stage closes it" in answer.text
    assert bench.core.state.stages.open == 1
    bench.message("dev-2", Nothing(stage=1))
    assert asked(bench, "eel").done


def test_names_that_hide_something_or_look_alike_do_not_open_by_themselves() -> None:
    bench = Bench(REPORTING)
    bench.begin("dev-1", "dev-2", classes=("coco",))
    bench.command(CloseStage())
    report(bench, "dev-1", "\u0441\u043e\u0441\u043e", "e\u200bel")
    bench.wait(5)
    assert bench.core.state.stages.current == 1
    report(bench, "dev-2", "eel")
    bench.wait(5)
    assert bench.core.state.stages.by_number[2].class_names == names("eel")


def test_a_device_is_told_which_name_of_its_folders_cannot_be_one() -> None:
    bench = closed_bench()
    waiting = WaitingClasses(classes={ClassName("so\u00adft"): 3, ClassName("eel"): 1})
    (told,) = sent(bench.message("dev-1", waiting), Problem)
    assert isinstance(told, Problem)
    assert "'so\\xadft' holds U+00AD (soft hyphen)" in told.text


def restarted(bench: Bench, away_seconds: float) -> Bench:
    """The coordinator is away for a while, with devices that could not answer meanwhile."""
    again = Bench(bench.rules, now_ns=bench.now_ns)
    for body, device, time_ns in bench.entries:
        again.core.state.apply(body, device, time_ns)
    again.wait(away_seconds)
    return again


def test_a_coordinator_that_was_away_does_not_close_a_stage_before_devices_come_back() -> None:
    rules = Rules(stages=StageRules(quorum=0.5, quiet_seconds=5, deadline_seconds=100))
    for away in (50, 500):  # past the quiet time, past the deadline
        bench = Bench(rules)
        bench.begin("dev-1", "dev-2")
        bench.give("dev-1", contribution("a"))
        again = restarted(bench, away)
        again.wait(30)
        assert again.core.state.stages.open == 1
        again.give("dev-2", contribution("b"))
        again.wait(5)
        closed = again.entries[-1][0]
        assert (closed.kind, closed.answered, closed.expected) == ("stage.closed", 2, 2)  # type: ignore[attr-defined]


def test_who_does_not_come_back_is_waited_for_no_longer_than_is_set() -> None:
    bench = Bench(Rules(stages=StageRules(deadline_seconds=100, gather_seconds=60)))
    bench.begin("dev-1", "dev-2")
    again = restarted(bench, 500)
    again.wait(59)
    assert again.core.state.stages.open == 1
    again.wait(1)
    assert again.core.state.stages.open is None
