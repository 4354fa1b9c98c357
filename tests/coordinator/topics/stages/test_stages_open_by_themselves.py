"""Under `open = "reports"` the devices' reports open the next stage, and the ledger says why."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.rules import Rules, StageRules
from fleetledger.coordinator.topics.classes.commands import MergeClasses
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.coordinator.topics.stages.entries import StageOpened, TransitionReported
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.receipts import Accepted, Later
from fleetledger.schemas.reports import Transition, Uncertainty
from fleetledger.schemas.values import ClassName, DeviceId
from tests.coordinator.core.harness import Bench, contribution, names, receipt

SEEN = Uncertainty(model_version=1, images=50, value=0.5, baseline=0.25)


def bench_of(**stages: object) -> Bench:
    values = {"open": "reports", "settle_seconds": 5, "quiet_seconds": 1, **stages}
    bench = Bench(Rules(stages=StageRules.model_validate(values)))
    bench.begin("dev-1", "dev-2", "dev-3")
    return bench


def close(bench: Bench) -> None:
    bench.command(CloseStage())


def named(*new: str, number: int = 0, stage: int = 1) -> Transition:
    classes = {ClassName(name): 3 for name in new}
    return Transition(stage=stage, number=number, why="class name", classes=classes)


def unsure(number: int = 0, *new: str) -> Transition:
    classes = {ClassName(name): 3 for name in new}
    return Transition(stage=1, number=number, why="entropy", classes=classes, uncertainty=SEEN)


def opened(bench: Bench) -> list[StageOpened]:
    return [body for body, _, _ in bench.entries if isinstance(body, StageOpened)]


def test_a_report_gets_one_receipt_however_often_it_is_sent() -> None:
    bench = bench_of()
    first = receipt(bench.message("dev-1", named("eel")))
    assert (first.about, first.key.part) == ("transition", 0)
    assert isinstance(first.answer, Accepted)
    assert receipt(bench.message("dev-1", named("eel"))) == first
    assert len([b for b, _, _ in bench.entries if isinstance(b, TransitionReported)]) == 1


def test_the_same_number_with_another_content_is_another_report() -> None:
    bench = bench_of()
    first = receipt(bench.message("dev-1", named("eel")))
    second = receipt(bench.message("dev-1", named("fox")))
    assert first.answer != second.answer


def test_a_stranger_is_put_off() -> None:
    answer = receipt(bench_of().message("stranger", named("eel"))).answer
    assert isinstance(answer, Later)


def test_a_quorum_of_reports_opens_the_next_stage_with_all_names_and_says_why() -> None:
    bench = bench_of()
    close(bench)
    bench.message("dev-1", named("eel", "fox"))
    bench.wait(100)
    assert len(opened(bench)) == 1, "one of three is less than half"
    bench.message("dev-3", named("fox", "gnu"))
    bench.wait(4)
    assert len(opened(bench)) == 1, "the reports have not settled"
    bench.wait(1)
    second = opened(bench)[-1]
    assert (second.stage, second.class_names) == (2, names("eel", "fox", "gnu"))
    assert second.reason == (
        "reports of 2 devices, 2 needed: dev-1 (class folders eel, fox), "
        "dev-3 (class folders fox, gnu)"
    )
    assert [bench.core.state.classes.indices[n] for n in second.class_names] == [2, 3, 4]


def test_the_next_stage_waits_until_the_last_one_is_closed() -> None:
    bench = bench_of(reports_quorum=1, deadline_seconds=60)
    bench.message("dev-1", named("eel"))
    bench.wait(50)
    assert len(opened(bench)) == 1
    bench.wait(10)
    bench.wait(0)
    bench.wait(0)
    assert len(opened(bench)) == 2


def test_the_model_of_a_closed_stage_is_asked_for_before_the_next_opens() -> None:
    bench = bench_of(reports_quorum=1)
    bench.give("dev-1", contribution("a"))
    bench.message("dev-1", named("eel"))
    bench.wait(30)
    close(bench)
    assert bench.wait(0), "a request for a head"
    assert len(opened(bench)) == 1
    bench.wait(0)
    assert len(opened(bench)) == 2


def test_unsure_devices_count_but_cannot_open_a_stage_without_a_name() -> None:
    bench = bench_of(reports_quorum=2)
    close(bench)
    bench.message("dev-1", unsure())
    bench.message("dev-2", unsure())
    bench.wait(100)
    assert len(opened(bench)) == 1
    bench.message("dev-2", named("eel", number=1))
    bench.wait(5)
    assert opened(bench)[-1].class_names == names("eel")
    assert "dev-1 (unsure about new images)" in opened(bench)[-1].reason
    close(bench)
    bench.message("dev-2", named("fox", number=2))
    bench.wait(100)
    assert len(opened(bench)) == 2, "what was unsure before the stage no longer counts"


def doubt(bench: Bench, device: str, within_seconds: float = 100.0) -> None:
    seen = SEEN.model_copy(update={"within_seconds": within_seconds})
    told = Transition(stage=1, number=0, why="entropy", classes={}, uncertainty=seen)
    bench.message(device, told)


@pytest.mark.parametrize(("waited", "opens"), [(100, True), (101, False)])
def test_a_doubt_counts_as_long_as_its_report_says(waited: int, *, opens: bool) -> None:
    bench = bench_of(reports_quorum=2)
    close(bench)
    doubt(bench, "dev-1", within_seconds=100)
    bench.wait(waited)
    bench.message("dev-2", named("eel"))
    bench.wait(5)
    assert (len(opened(bench)) == 2) is opens


def test_a_quorum_needs_doubts_of_one_window_and_not_one_of_each_devices_past() -> None:
    bench = bench_of(reports_quorum=3)
    close(bench)
    for device in ("dev-1", "dev-2"):
        doubt(bench, device)
        bench.wait(150)
    bench.message("dev-3", named("eel"))
    bench.wait(50)
    assert len(opened(bench)) == 1
    doubt_again = Transition(stage=1, number=1, why="entropy", classes={}, uncertainty=SEEN)
    for device in ("dev-1", "dev-2"):
        bench.message(device, doubt_again)
    bench.wait(5)
    assert opened(bench)[-1].class_names == names("eel"), "a name does not age"


def test_one_window_can_be_set_for_all_reports() -> None:
    for within, opens in ((300, True), (20, False)):
        bench = bench_of(reports_quorum=2, reports_within_seconds=within)
        close(bench)
        doubt(bench, "dev-1")
        bench.wait(200)
        bench.message("dev-2", named("eel"))
        bench.wait(5)
        assert (len(opened(bench)) == 2) is opens


def test_a_doubt_that_had_a_wrong_time_moves_with_the_calendar() -> None:
    """The window is between reports: an hour that never was does not end it."""
    bench = bench_of(reports_quorum=2)
    close(bench)
    doubt(bench, "dev-1", within_seconds=100)
    state = bench.core.state
    before = state.stages.reports_of(DeviceId("dev-1")).doubts
    assert before is not None
    state.apply(ClockCorrected(by_ns=10**12), None, bench.now_ns)
    after = state.stages.reports_of(DeviceId("dev-1")).doubts
    assert after is not None
    assert before.time_ns - after.time_ns == 10**12


def test_names_that_are_known_or_aliases_are_no_news() -> None:
    bench = bench_of(reports_quorum=1)
    bench.command(MergeClasses(source=names("dog")[0], target=names("cat")[0]))
    close(bench)
    bench.message("dev-1", named("dog", "cat"))
    bench.wait(100)
    assert len(opened(bench)) == 1


@pytest.mark.parametrize(("quorum", "needed"), [(3, 3), (1.0, 3), (0.5, 2), (1, 1)])
def test_the_quorum_is_a_number_or_a_share(quorum: float, needed: int) -> None:
    bench = bench_of(reports_quorum=quorum)
    close(bench)
    for count, device in enumerate(("dev-1", "dev-2", "dev-3"), start=1):
        bench.message(device, named("eel"))
        bench.wait(5)
        assert (len(opened(bench)) == 2) == (count >= needed)


def test_by_default_only_the_operator_opens_stages() -> None:
    bench = Bench()
    bench.begin("dev-1")
    close(bench)
    bench.message("dev-1", named("eel"))
    bench.wait(1000)
    assert len(opened(bench)) == 1


def test_a_stage_that_the_operator_opens_answers_the_reports() -> None:
    bench = bench_of(reports_quorum=1)
    bench.message("dev-1", named("eel"))
    bench.command(OpenStage(class_names=names("eel")))
    close(bench)
    bench.wait(100)
    assert len(opened(bench)) == 2


def test_more_names_than_an_assignment_carries_are_opened_in_turn() -> None:
    bench = bench_of(reports_quorum=1)
    close(bench)
    long = [f"{n:04} " + "x" * 90 for n in range(600)]
    bench.message("dev-1", named(*long[:400]))
    bench.message("dev-2", named(*long[200:]))
    bench.wait(5)
    first = opened(bench)[-1].class_names
    assert 200 < len(first) < 600
    assert set(names(*long[200:400])) <= set(first), "those of most devices come first"


def test_a_replay_decides_the_same() -> None:
    bench = bench_of(reports_quorum=1)
    bench.message("dev-1", named("eel"))
    bench.message("dev-2", unsure(0, "fox"))
    twin = Bench(bench.rules)
    for body, device, time_ns in bench.entries:
        twin.core.state.apply(body, device, time_ns)
    assert twin.core.state == bench.core.state


def test_devices_that_only_say_nothing_do_not_count() -> None:
    bench = bench_of(reports_quorum=2)
    for device in ("dev-1", "dev-2", "dev-3"):
        bench.message(device, Nothing(stage=1))
    bench.message("dev-1", named("eel"))
    for _ in range(5):
        bench.wait(10)
    assert len(opened(bench)) == 1
