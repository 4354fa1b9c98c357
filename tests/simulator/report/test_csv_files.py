"""Numbers by line, for those who draw their own pictures."""

import csv
from pathlib import Path

import pytest

from fleetledger.simulator.report.csv_files import (
    write_devices_csv,
    write_novelty_csv,
    write_results_csv,
)
from tests.simulator.fake_run import Shape, fake_results, fake_seed

SHAPE = Shape(stages=3, joining=1, rounds=2, detection=True)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_each_line_of_results_is_one_number(tmp_path: Path):
    results = fake_results(SHAPE)
    write_results_csv(tmp_path / "results.csv", results)
    rows = read(tmp_path / "results.csv")
    keys = [(row["seed"], row["stage"], row["metric"]) for row in rows]
    assert len(set(keys)) == len(keys)
    values = {key: float(row["value"]) for key, row in zip(keys, rows, strict=True)}
    second = results.seeds[2]
    assert values["2", "", "forgetting"] == second.headline["forgetting"]
    assert values["2", "3", "accuracy"] == second.stages[2].accuracy
    assert values["2", "3", "accuracy_of_task_1"] == pytest.approx(
        second.stages[2].task_correct[0] / second.stages[2].task_total[0]
    )
    assert values["2", "2", "bytes_up_highest"] == second.stages[1].bytes_up.highest
    assert values["2", "1", "seconds_solve"] == second.stages[0].seconds["solve"]
    assert values["2", "2", "entropy_noticed"] == second.stages[1].detection[0].noticed
    assert values["2", "2", "round_2_loss"] == 1
    assert values["2", "2", "devices_joined"] == 1
    assert ("2", "1", "old_accuracy") not in values


def test_each_line_of_looks_is_a_look_and_what_it_was(tmp_path: Path):
    results = fake_results(Shape(stages=2, seeds=(1,), rounds=3, looks=True))
    write_novelty_csv(tmp_path / "novelty_checks.csv", results)
    rows = read(tmp_path / "novelty_checks.csv")
    assert len(rows) == sum(len(stage.novelty_checks) for stage in results.first.stages)
    second = [row for row in rows if row["stage"] == "2"]
    told = {(row["device"], row["round"]): row for row in second}
    assert told["device-2", "2"]["verdict"] == "late"
    assert told["device-3", "1"]["verdict"] == "missed"
    assert told["device-1", "1"]["transition"] == "True"
    assert float(told["device-1", "2"]["entropy"]) == 1.0


def test_what_went_to_a_proxy_is_among_the_numbers(tmp_path: Path):
    results = fake_results(Shape(stages=2, seeds=(1,), rounds=3, looks=True))
    write_results_csv(tmp_path / "results.csv", results)
    values = {(row["stage"], row["metric"]): row["value"] for row in read(tmp_path / "results.csv")}
    assert values["2", "proxy_gradient_bytes"] == "6000"
    assert values["2", "proxy_scored"] == "3"


def test_each_line_of_devices_is_a_device_in_a_stage(tmp_path: Path):
    fake = fake_seed(SHAPE, seed=4)
    write_devices_csv(tmp_path / "devices.csv", [(4, fake.records)])
    rows = read(tmp_path / "devices.csv")
    assert len(rows) == sum(len(record.devices) for record in fake.records)
    last = rows[-1]
    device = fake.records[-1].devices[last["device"]]
    assert (last["seed"], last["stage"], last["group"]) == ("4", "3", "joined")
    assert int(last["bytes_up"]) == device.bytes_up
    assert int(last["counted_samples"]) == device.counted_samples
