"""The tables of a report, against the results that they are made from."""

from dataclasses import replace

import pytest

from fleetledger.simulator.metrics.headline import METRICS, metric_of
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import by_stage
from fleetledger.simulator.report.tables.costs import profile_table, time_table, wire_table
from fleetledger.simulator.report.tables.fleet import (
    MOST_SHOWN,
    detection_table,
    device_table,
    fleet_table,
    plan_table,
    was_detecting,
)
from fleetledger.simulator.report.tables.learning import (
    class_list,
    headline_table,
    published_table,
    round_table,
    seed_table,
    stage_table,
)
from fleetledger.simulator.report.tables.table import Table
from tests.simulator.fake_run import Shape, fake_results

SHAPE = Shape(
    stages=3, devices=8, joining=2, offline=0.2, rounds=2, detection=True, pooled=True, stored=40
)


@pytest.fixture(scope="module")
def results() -> RunResults:
    published = [
        {"label": "STSA", "accuracy": [90, 80, 70], "source": "Table 1"},
        {"label": "joint", "final": 95},
    ]
    return fake_results(replace(SHAPE, changes={"published": published}))


def column(table: Table, head: str) -> list[str]:
    place = next(number for number, name in enumerate(table.head) if head in name)
    return [row[place].replace("\u00a0", " ") for row in table.rows]


def test_every_known_number_is_explained(results: RunResults):
    table = headline_table(results)
    known = [metric_of(name) for name in METRICS if name in results.summary]
    assert column(table, "number") == [metric.title for metric in known]
    assert column(table, "meaning") == [metric.meaning for metric in known]


def test_intervals_over_seeds_stand_in_a_run_s_own_table(results: RunResults):
    table = headline_table(results)
    of = results.summary["final_accuracy"]
    told = dict(zip(column(table, "number"), column(table, "95 %"), strict=True))
    low, high = (100 * (of.mean + sign * of.half_width) for sign in (-1, 1))
    assert told["accuracy after the last stage"] == f"{100 * of.mean:.2f} [{low:.2f}, {high:.2f}] %"
    alone = headline_table(fake_results(replace(SHAPE, seeds=(1,))))
    assert alone.head == ("number", "value", "meaning")


def test_published_numbers_stand_beside_the_distance_to_them(results: RunResults):
    table = published_table(results)
    ours = 100 * results.summary["average_incremental_accuracy"].mean
    last = 100 * results.summary["final_accuracy"].mean
    assert [row[0] for row in table.rows] == ["this run", "STSA", "joint"]
    assert column(table, "average") == [f"{ours:.2f} %", "80.00 %", "–"]
    assert table.rows[1][2].startswith(f"{ours - 80:+.2f}")
    assert table.rows[2][4].startswith(f"{last - 95:+.2f}")
    assert table.rows[1][5] == "Table 1"


def test_each_seed_has_a_row_with_the_digest_of_its_head(results: RunResults):
    table = seed_table(results)
    assert column(table, "seed") == ["1", "2", "3"]
    assert column(table, "head") == [seed.stages[-1].head.short for seed in results.seeds.values()]


def test_each_stage_has_a_row_with_mean_and_deviation(results: RunResults):
    table = stage_table(results)
    assert column(table, "stage") == ["1", "2", "3"]
    assert column(table, "old classes")[0] == "–"
    assert all(" ± " in cell for cell in column(table, "accuracy"))
    assert "pooled images, %" in table.head
    assert "pooled images, %" not in stage_table(fake_results(Shape(stages=2))).head


def test_of_many_classes_the_first_are_named():
    assert class_list(("a", "b")) == "a, b"
    assert class_list(tuple("abcdefghij")) == "a, b, c, d, e … (10)"


def test_rounds_are_told_by_their_first_and_last(results: RunResults):
    table = round_table(results)
    assert column(table, "rounds") == ["2", "2", "2"]
    assert column(table, "loss") == ["1", "1", "1"]


def test_the_fleet_is_told_by_stage_and_group(results: RunResults):
    table = fleet_table(results)
    assert column(table, "devices") == ["8", "10", "12"]
    assert column(table, "joined") == ["0", "2", "2"]
    stored = [seed.stages[2].stored_samples.total for seed in results.seeds.values()]
    assert float(column(table, "samples stored")[2].replace(",", "")) == pytest.approx(
        sum(stored) / 3, abs=0.06
    )
    assert "joined" not in fleet_table(fake_results(Shape(stages=2))).head


def test_the_plan_is_told_by_seed(results: RunResults):
    table = plan_table(results)
    samples = [device.samples for device in results.first.devices]
    assert column(table, "images")[0] == f"{sum(samples):,}"
    assert column(table, "most")[0] == str(max(samples))


def test_a_small_fleet_is_listed_device_by_device(results: RunResults):
    table = device_table(results)
    assert column(table, "device") == [device.device for device in results.first.devices]
    first = results.first.devices[0]
    assert column(table, "images")[0] == f"{first.samples:,}"


def test_of_a_large_fleet_the_worst_served_are_listed():
    results = fake_results(Shape(stages=2, devices=60, seeds=(1,)))
    table = device_table(results)
    known = [d.accuracy for d in results.first.devices if d.accuracy is not None]
    assert len(table.rows) == MOST_SHOWN
    assert "of 60" in table.title
    worst = sorted(known)[:MOST_SHOWN]
    assert column(table, "accuracy") == [f"{100 * value:.2f} %" for value in worst]


def test_detection_is_added_up_over_seeds(results: RunResults):
    table = detection_table(results)
    found = [seed.stages[1].detection[0] for seed in results.seeds.values()]
    assert column(table, "stage") == ["2", "3"]
    assert column(table, "noticed")[0] == str(sum(item.noticed for item in found))
    assert column(table, "missed")[0] == str(sum(item.with_new - item.noticed for item in found))
    assert column(table, "false alarms")[0] == str(sum(item.false_alarms for item in found))


def test_detection_is_shown_where_it_was_on_or_anything_was_reported(results: RunResults):
    assert was_detecting(results)
    silent = fake_results(Shape(stages=2))
    assert not was_detecting(silent)
    assert not was_detecting(fake_results(Shape(stages=1, detection=True)))


def test_bytes_and_time_are_told_by_stage(results: RunResults):
    wire = wire_table(results)
    up = [seed.stages[0].bytes_up.total for seed in results.seeds.values()]
    assert column(wire, "fleet up")[0] == f"{sum(up) / 3 / 1024:.2f}"
    time = time_table(results)
    assert column(time, "features, s")[:2] == ["4.00", "2.00"]
    assert column(time, "peak memory, MiB") == ["320.00", "340.00", "360.00"]


def test_the_profile_is_the_time_of_all_stages_by_phase_the_longest_first(results: RunResults):
    table = profile_table(results)
    assert table.head == ("phase", "time", "share, %", "what is done")
    seconds = [float(row[1].split("\u00a0")[0]) for row in table.rows]
    assert seconds == sorted(seconds, reverse=True)
    whole = sum(by_stage(results, lambda stage: stage.wall_seconds).mean(axis=0))
    assert sum(seconds) == pytest.approx(whole, abs=0.05)
    shares = {row[0]: float(row[2]) for row in table.rows}
    assert sum(shares.values()) == pytest.approx(100, abs=0.05)
    solve = sum(by_stage(results, lambda stage: stage.seconds["solve"]).mean(axis=0))
    assert shares["solve"] == pytest.approx(100 * solve / whole, abs=0.006)
    assert all(row[3] for row in table.rows)
    pace = results.summary["answers_per_second"].mean
    assert f"Answers of devices: {pace:.2f}\u00a0per second" in table.note


def test_a_run_that_was_learned_before_has_an_empty_profile(results: RunResults):
    seeds = {
        seed: metrics.model_copy(
            update={
                "stages": tuple(
                    stage.model_copy(update={"seconds": {"total": 0.0, "fleet": 0.0}})
                    for stage in metrics.stages
                )
            }
        )
        for seed, metrics in results.seeds.items()
    }
    assert profile_table(results.model_copy(update={"seeds": seeds})).rows == ()
