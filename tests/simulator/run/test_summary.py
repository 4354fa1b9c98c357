"""The table at the end of a run."""

from io import StringIO

from rich.console import Console

from fleetledger.simulator.metrics.headline import METRICS
from fleetledger.simulator.metrics.over_seeds import summary
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.score import Score
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.run.summary import SHOWN, summary_table, summary_title
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import PublishedCurve


def results(published: tuple[PublishedCurve, ...] = (), score: Score = "accuracy") -> RunResults:
    """Results of two seeds of which only the summary is known."""
    numbers = {"final_accuracy": [0.8, 0.9], "bytes_per_device": [2048.0, 4096.0]}
    return RunResults.model_construct(
        scenario=Scenario(title="digits", published=published),
        seeds=dict.fromkeys((1, 2), SeedMetrics.model_construct(score=score)),
        summary={name: summary(values) for name, values in numbers.items()},
    )


def rows(shown: RunResults) -> list[str]:
    console = Console(file=StringIO(), width=120)
    console.print(summary_table(shown))
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_mean_and_deviation_stand_with_their_unit():
    shown = rows(results())
    assert "accuracy after the last stage 85.00 ± 7.07 %" in shown
    assert any("per device 3.00 ± 1.41 KiB" in row for row in shown)
    assert summary_title(results()) == "digits: mean ± deviation of 2 seeds"


def test_a_run_of_pixels_is_told_by_its_miou():
    assert "mIoU after the last stage 85.00 ± 7.07 %" in rows(results(score="mIoU"))


def test_published_numbers_stand_beside_those_that_they_are_compared_with():
    paper = PublishedCurve(label="a paper", average=70.5, final=63.25)
    shown = rows(results((paper,)))
    assert "accuracy after the last stage 85.00 ± 7.07 % 63.25 %" in shown
    assert any(row.startswith("this run a paper") for row in shown)
    (traffic,) = (row for row in shown if "KiB" in row)
    assert traffic.endswith("KiB")


def test_every_number_that_is_shown_exists():
    assert set(SHOWN) <= set(METRICS)


def test_a_label_with_brackets_is_shown_as_it_is():
    paper = PublishedCurve(label="FedHAF [20 %]", average=49.39)
    assert any("FedHAF [20 %]" in row for row in rows(results((paper,))))


def test_of_many_published_numbers_the_first_fit_the_screen():
    papers = tuple(PublishedCurve(label=f"paper {n}", final=60.0 + n) for n in range(8))
    shown = " ".join(rows(results(papers)))
    assert "paper 0 paper 1 paper 2" in shown
    assert "paper 3" not in shown
