"""Results, table and picture, from hand-made ledger entries."""

from io import StringIO
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from simulator.demo.plot import draw_accuracy
from simulator.demo.results import StageResult, read_result, task_scores, traffic_of_stage
from simulator.demo.table import stage_table
from simulator.errors import DemoError
from tests.simulator.demo.hand_made import HandMadeLedger


@pytest.fixture
def ledger() -> HandMadeLedger:
    made = HandMadeLedger()
    made.begin()
    return made


@pytest.fixture
def results(ledger: HandMadeLedger) -> list[StageResult]:
    """Each device is wrong twice about class 0 in stage 1, and six times in stage 2."""
    ledger.learn(1, wrong=2)
    first = read_result(ledger.view, ledger.plan, 1, seconds=3.0)
    ledger.learn(2, wrong=6)
    return [first, read_result(ledger.view, ledger.plan, 2, seconds=4.0)]


def count_tests(ledger: HandMadeLedger, *names: str) -> int:
    return sum(
        number
        for share in ledger.plan.test.values()
        for name, number in share.counts().items()
        if name in names
    )


def test_right_answers_of_all_agents_give_the_accuracy_over_the_whole_test_set(
    ledger: HandMadeLedger, results: list[StageResult]
):
    asked = count_tests(ledger, "0", "1")
    assert sum(results[0].total.values()) == asked
    assert results[0].accuracy == (asked - 4) / asked
    everything = count_tests(ledger, "0", "1", "2", "3")
    assert results[1].accuracy == (everything - 12) / everything


def test_forgetting_is_what_the_first_task_lost(ledger: HandMadeLedger, results: list[StageResult]):
    assert task_scores(results).forgetting() == pytest.approx(8 / count_tests(ledger, "0", "1"))


def test_bytes_are_those_of_the_stage_alone(results: list[StageResult]):
    assert traffic_of_stage(results, 0) == (20_000, 2_000)
    assert traffic_of_stage(results, 1) == (20_000, 2_000)
    assert [result.payload_bytes for result in results] == [2000, 4000]
    assert [result.contributions for result in results] == [2, 2]


def test_a_newer_model_of_the_same_stage_is_the_one_reported(ledger: HandMadeLedger):
    ledger.learn(1, wrong=2)
    ledger.solve(2)
    ledger.desire(2)
    for device in ledger.plan.devices:
        ledger.report(2, device)
        ledger.evaluate(1, 2, device, wrong=0)
    result = read_result(ledger.view, ledger.plan, 1, seconds=3.0)
    assert result.version == 2
    assert result.accuracy == 1.0
    assert result.aggregate == ledger.view.state.models.by_version[2].solved.aggregate


def test_a_class_that_nobody_was_asked_about_is_an_error(results: list[StageResult]):
    del results[1].correct[results[0].class_names[0]]
    with pytest.raises(DemoError, match="class 0"):
        task_scores(results)


def test_the_table_shows_every_stage_and_its_numbers_in_80_characters(
    results: list[StageResult],
):
    console = Console(file=StringIO(), width=80)
    console.print(stage_table(results, pooled=[0.99, 0.95]))
    first, second = (line.split() for line in console.file.getvalue().splitlines()[-3:-1])
    assert first[:4] == ["1", "0", "1", f"{100 * results[0].accuracy:.2f}"]
    assert second == [
        *("2", "2", "3", f"{100 * results[1].accuracy:.2f}", "95.00"),
        f"{100 * (results[1].accuracy - 0.95):+.2f}",
        f"{100 * task_scores(results).forgetting():.2f}",
        *("20", "2", "4.0"),
    ]


def test_the_picture_is_a_png_of_readable_size(tmp_path: Path, results: list[StageResult]):
    draw_accuracy(tmp_path / "accuracy.png", results, [0.99, 0.95], ("A fleet", "two agents"))
    with Image.open(tmp_path / "accuracy.png") as picture:
        assert picture.format == "PNG"
        assert picture.width >= 1000
        assert len(picture.convert("RGB").getcolors(10**6)) > 10
