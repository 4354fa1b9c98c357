"""Rows of a plan from files: the same rows, whatever the form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.plan_files import read_plan_file
from tests.simulator.plan.making import make_split, names, plan

ROWS = [
    (1, "device-1", 0, "", "day"),
    (1, "2", 1, "kind 001", "night"),
    (2, 1, 2, -1, ""),
    (2, 2, 0, 1, ""),
]
COLUMNS = ("stage", "device", "sample", "label", "domain")
STAGES, DEVICES, SAMPLES = [1, 1, 2, 2], [1, 2, 1, 2], [0, 1, 2, 0]
LABELS, DOMAINS = [-1, 1, -1, 1], ["day", "night", "", ""]


def csv_file(path: Path) -> None:
    lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in ROWS)]
    path.write_text("\n".join(lines), encoding="utf-8-sig")


def json_lines(path: Path) -> None:
    path.write_text("\n".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in ROWS))


def npz_file(path: Path) -> None:
    np.savez(
        path, stage=STAGES, device=DEVICES, sample=SAMPLES, label=LABELS, domain=np.array(DOMAINS)
    )


def parquet_file(path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = (STAGES, DEVICES, SAMPLES, LABELS, DOMAINS)
    parquet.write_table(arrow.table(dict(zip(COLUMNS, columns, strict=True))), path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("plan.csv", csv_file),
        ("plan.jsonl", json_lines),
        ("plan.npz", npz_file),
        ("plan.parquet", parquet_file),
    ],
)
def test_every_form_gives_the_same_rows(name: str, write, tmp_path: Path) -> None:
    write(tmp_path / name)
    rows = read_plan_file(str(tmp_path / name), names(2))
    assert rows.stage.tolist() == STAGES
    assert rows.device.tolist() == DEVICES
    assert rows.sample.tolist() == SAMPLES
    assert rows.label.tolist() == LABELS
    assert rows.domain.tolist() == DOMAINS


def test_a_scenario_learns_by_a_file(tmp_path: Path) -> None:
    csv_file(tmp_path / "plan.csv")
    made = plan(
        make_split([2, 2], shuffled=False),
        stages={"plan": "rows", "file": str(tmp_path / "plan.csv"), "count": 2},
        devices={"count": 2},
    )
    first, second = made.stages
    assert (first.classes, second.classes, second.returning) == ((0, 1), (), (1,))
    assert {n: d.indices.tolist() for n, d in first.devices.items()} == {
        "device-1": [0],
        "device-2": [4],  # sample 1, whose label is 0, as one of class 1
    }
    assert second.devices["device-2"].indices.tolist() == [5]
    assert (made.renamed.samples.tolist(), made.renamed.labels.tolist()) == ([1, 0], [1, 1])
    assert made.domain_stages[0, "day"] == 1


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("plan.txt", "", r"give a file that ends in \.csv, \.jsonl, \.npz, \.parquet"),
        ("plan.csv", "stage,device\n1,1", r"columns stage, device; give stage, device, sample"),
        ("plan.csv", "stage,device,sample,age\n1,1,1,1", r"columns stage.*age; give"),
        ("plan.csv", "stage,device,sample\n", r"no row"),
        ("plan.csv", "stage,device,sample\n1,1\n", r"cannot be read: row 1 has not 3 fields"),
        ("plan.csv", "stage,device,sample\n1,one,1\n", r"row 1: device 'one'; .* or device-3"),
        ("plan.csv", "stage,device,sample,label\n1,1,0,x\n", r"row 1: label 'x'; .* of a class"),
        ("plan.jsonl", "[1]\n", r"a line is no object"),
        ("plan.jsonl", "{1\n", r"cannot be read"),
        ("plan.npz", "nothing", r"cannot be read"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(name: str, text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(PlanError, match=told):
        read_plan_file(str(path), names(2))


def test_a_file_that_is_missing_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"stages\.file: .*gone\.csv: cannot be read"):
        read_plan_file(str(tmp_path / "gone.csv"), names(2))
