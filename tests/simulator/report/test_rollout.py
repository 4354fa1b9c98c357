"""A rollout in the report: its curve, gates and verdict; nothing of it where there was none."""

from __future__ import annotations

import pytest

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.pictures.exposure import draw_exposure
from fleetledger.simulator.report.pictures.gallery import pictures_of
from fleetledger.simulator.report.run_page import run_page
from fleetledger.simulator.report.tables.rollouts import gate_table, rollout_table
from fleetledger.simulator.rollouts.rollout_reader import ParticipatingFleet, read_rollout
from tests.simulator.fake_run import Shape, fake_results
from tests.simulator.rollouts.entries import FLEET, rollout, stopped

PLAIN = Shape(stages=2, seeds=(1, 2))


@pytest.fixture(scope="module")
def results() -> RunResults:
    record = read_rollout(
        rollout(), stopped(), ParticipatingFleet(FLEET, lambda _: True), "bad-class"
    )
    found = fake_results(PLAIN)
    seeds = {
        seed: metrics.model_copy(update={"rollout": record})
        for seed, metrics in found.seeds.items()
    }
    return found.model_copy(update={"seeds": seeds})


def test_the_curve_has_the_steps_of_the_record(results: RunResults):
    (axes,) = draw_exposure(results).axes
    ever = next(line for line in axes.lines if line.get_label() == "have run the candidate")
    assert [int(y) for y in ever.get_ydata()] == [0, 1, 2, 2, 2, 2]
    assert [float(x) for x in ever.get_xdata()][:5] == [0, 10, 35, 55, 60]
    assert axes.get_xlabel().startswith("seconds")


def test_gates_stand_by_phase_with_class_value_and_limit(results: RunResults):
    record = results.first.rollout
    assert record is not None
    table = gate_table(record)
    assert table.head == ("gate", "group 1, 1 device", "group 2, 4 devices")
    assert table.rows == (
        ("all", "✓ pass", "✕ fail"),
        ("no class lost", "–", "✕ 4: 9.5 of 7.6"),
    )


def test_every_seed_has_a_row(results: RunResults):
    rows = rollout_table(results).rows
    assert [row[:6] for row in rows] == [
        (str(seed), "bad-class", "rolled back", "2", "2", "10") for seed in (1, 2)
    ]


def test_the_page_has_the_verdict_where_there_was_a_rollout(results: RunResults):
    page, plain = run_page(results, []), run_page(fake_results(PLAIN), [])
    for text in ('id="rollout"', "Gates by group", "Class 4 is lost on 3 devices. 2 of 10 devices"):
        assert text in page
        assert text not in plain


def test_results_without_a_rollout_are_written_as_before():
    plain = fake_results(PLAIN)
    assert "rollout" not in plain.model_dump_json()
    assert "exposure.png" not in {picture.file for picture in pictures_of(plain)}
