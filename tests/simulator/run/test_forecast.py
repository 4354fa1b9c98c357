"""What is expected of a run, against numbers made up by hand."""

import os
from pathlib import Path

import pytest

from fleetledger.schemas.values import Digest
from fleetledger.simulator.run import forecast
from fleetledger.simulator.run.forecast import (
    Forecasts,
    MeasuredRun,
    Pace,
    SeedTimes,
    kind_of,
    measured_run,
)
from fleetledger.simulator.scenario.model import Scenario

RUN = MeasuredRun(
    day="2026-03-01",
    before_seconds=5.0,
    stage_seconds=(10.0, 20.0, 30.0),
    after_seconds=2.0,
    other_seconds=7.0,
    peak_memory_mib=610.0,
)
KIND = Digest.of(b"a scenario")
MACHINE = {"processor": "x86_64, a name", "cores": 2, "memory_mib": 4000}


def scenario(**sections: object) -> Scenario:
    content = {"title": "digits", "data": {"set": "digits"}, "stages": {"count": 3}}
    return Scenario.model_validate(content | sections)


def in_rounds(**sections: object) -> Scenario:
    return scenario(method={"name": "rounds"}, **sections)


def test_a_run_is_expected_to_take_what_each_seed_and_the_rest_took():
    assert RUN.left([0]) == 5 + 60 + 2 + 7
    assert RUN.left([0, 0, 0]) == 3 * 67 + 7


def test_what_is_finished_takes_no_more_time():
    assert RUN.left([1]) == 50 + 2 + 7
    assert RUN.left([3, 2, 0]) == 0 + (30 + 2) + 67 + 7
    assert RUN.left([3, 3]) == 7


def test_a_measured_run_is_the_mean_of_its_seeds_and_the_highest_memory():
    seeds = [SeedTimes(4.0, (8.0, 20.0), 1.0, 500.0), SeedTimes(2.0, (12.0, 40.0), 3.0, 480.0)]
    run = measured_run(seeds, 100.0, "2026-03-01")
    assert run.stage_seconds == (10.0, 30.0)
    assert (run.before_seconds, run.after_seconds) == (3.0, 2.0)
    assert run.other_seconds == 100 - 33 - 57
    assert run.peak_memory_mib == 500.0
    assert run.left([0, 0]) == pytest.approx(100.0)


def test_kinds_differ_by_settings_and_processor_and_not_by_seeds_or_words():
    kind = kind_of(scenario(seeds=[1]), MACHINE)
    assert kind_of(scenario(seeds=[4, 5], title="other", description="x"), MACHINE) == kind
    assert kind_of(scenario(), MACHINE | {"memory_mib": 3999}) == kind
    assert kind_of(scenario(devices={"count": 6}), MACHINE) != kind
    assert kind_of(scenario(engine={"deadline_seconds": 9}), MACHINE) != kind
    assert kind_of(scenario(), MACHINE | {"cores": 8}) != kind


def test_without_rounds_every_stage_is_taken_to_last_as_long():
    pace = Pace.of(scenario())
    assert pace.after_stages([10.0], 0, seeds=1) == 20
    assert pace.after_stages([10.0], 0, seeds=3) == 20 + 2 * 30
    assert pace.after_stages([8.0, 10.0], 0, seeds=2) == 10 + 28
    assert pace.after_stages([8.0, 10.0, 12.0], 0, seeds=2) == 30
    assert pace.after_round(1.0, seeds=1) is None


def test_rounds_are_taken_to_last_as_long_as_the_first():
    pace = Pace.of(in_rounds(rounds={"per_stage": 4, "per_first_stage": 10}))
    assert pace.steps == (10, 4, 4)
    assert pace.after_round(2.0, seeds=1) == 2 * 17
    assert pace.after_round(2.0, seeds=3) == 2 * (3 * 18 - 1)
    assert pace.after_stages([20.0], 10, seeds=1) == 2 * 8
    assert pace.after_stages([20.0], 10, seeds=2) == 16 + 36


def test_a_stage_of_another_kind_says_nothing_of_those_that_come():
    first = {"name": "rounds", "rounds": 5}
    pace = Pace.of(scenario(method={"name": "stsa", "first_stage": first}))
    assert pace.steps == (5, 1, 1)
    assert pace.after_round(2.0, seeds=1) is None
    assert pace.after_stages([20.0], 5, seeds=1) is None
    assert pace.after_stages([20.0, 3.0], 0, seeds=2) == 3 + 26
    trained_before = Pace.of(in_rounds(rounds={"per_stage": 4}))
    assert trained_before.after_stages([0.5], 0, seeds=1) is None


def test_what_is_kept_is_found_under_its_kind_alone(tmp_path: Path):
    forecasts = Forecasts(tmp_path / "new")
    assert forecasts.find(KIND) is None
    forecasts.keep(KIND, RUN)
    assert forecasts.find(KIND) == RUN
    assert forecasts.find(Digest.of(b"another")) is None
    longer = RUN.model_copy(update={"after_seconds": 99.0})
    forecasts.keep(KIND, longer)
    assert forecasts.find(KIND) == longer


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[1]",
        RUN.model_dump_json().replace("610.0", "NaN").encode(),
        RUN.model_dump_json().replace("610.0", "-1").encode(),
        RUN.model_dump_json().replace('"format":1', '"format":2').encode(),
        b" " * (1 << 17) + RUN.model_dump_json().encode(),
    ],
)
def test_a_damaged_file_is_as_if_nothing_were_known_and_is_replaced(tmp_path: Path, damage: bytes):
    forecasts = Forecasts(tmp_path)
    (tmp_path / f"{KIND}.json").write_bytes(damage)
    assert forecasts.find(KIND) is None
    forecasts.keep(KIND, RUN)
    assert forecasts.find(KIND) == RUN


def test_the_scenario_that_ran_longest_ago_makes_room(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(forecast, "_MOST_FILES", 2)
    forecasts, kinds = Forecasts(tmp_path), [Digest.of(bytes([n])) for n in range(3)]
    for age, kind in zip((30, 10), kinds[:2], strict=True):
        forecasts.keep(kind, RUN)
        os.utime(tmp_path / f"{kind}.json", (1e9 - age, 1e9 - age))
    forecasts.keep(kinds[2], RUN)
    assert [forecasts.find(kind) is not None for kind in kinds] == [False, True, True]
