"""A sweep runs every case with every seed, goes on where it was, and tells with intervals."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

from fleetledger.simulator.errors import RunError, ScenarioError
from fleetledger.simulator.metrics.results import FILE_NAME, RunResults
from fleetledger.simulator.sweep.cases import Axis, make_cases, read_cases, write_cases
from fleetledger.simulator.sweep.runs import Beside
from fleetledger.simulator.verbs import resume_sweep, sweep
from tests.rooms import ROOT
from tests.simulator.unrendered import without_pictures

RIDGES = "method.settings.ridge=[1e2, 1e6]"


def cases(out: Path, *vary: str, changes: Sequence[str] = ()) -> list[str]:
    made = make_cases(out, ["digits-tiny"], changes, [Axis.read(text) for text in vary])
    return [case.name for case in made]


def test_every_combination_of_values_is_a_case(tmp_path: Path) -> None:
    names = cases(tmp_path, RIDGES, 'engine.training=["loop", "stack"]')
    assert names == [
        "digits-tiny,ridge=100,training=loop",
        "digits-tiny,ridge=100,training=stack",
        "digits-tiny,ridge=1e+06,training=loop",
        "digits-tiny,ridge=1e+06,training=stack",
    ]


@pytest.mark.parametrize(
    ("vary", "told"),
    [
        ("method.settings.ridge=1e2", "no list of values"),
        ("method.settings.ridge=[]", "no list of values"),
        ("method.settings.ridge=[1.0, 1.0]", "a value stands twice"),
        ("engine.worker=[1, 2]", "did you mean 'workers'"),
        ('engine.training=["loop", "heap"]', "engine.training"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_runs(
    vary: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=told):
        cases(tmp_path, vary)


def test_a_field_is_varied_once(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"the field 'method\.settings\.ridge' stands twice"):
        cases(tmp_path, RIDGES, RIDGES)


def test_no_sweep_has_more_runs_than_anybody_would_wait_for(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="20,000 runs"):
        cases(tmp_path, RIDGES, changes=[f"seeds={list(range(1, 10_001))}"])


def test_a_sweep_is_read_as_it_was_written(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    made = make_cases(out, ["digits-tiny"], ["seeds=[1, 2]"], [Axis.read(RIDGES)])
    write_cases(out, made)
    assert read_cases(out) == made
    with pytest.raises(RunError, match=r"is not empty; .* --resume"):
        write_cases(out, made)
    with pytest.raises(RunError, match=r"sweep\.json: cannot be read"):
        read_cases(tmp_path)
    (out / "sweep.json").write_text("{}")
    with pytest.raises(RunError, match=r"sweep\.json: not a sweep's"):
        read_cases(out)


def test_runs_go_beside_each_other_and_a_failed_one_is_made_good_afterwards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", without_pictures(ROOT / "src")["PYTHONPATH"])
    out = tmp_path / "sweep"
    made = make_cases(out, ["digits-tiny"], ["seeds=[1, 2]"], [Axis.read(RIDGES)])
    write_cases(out, made)
    in_the_way = made[1].folder / "seed-2" / "somebody-s.txt"
    in_the_way.parent.mkdir()
    in_the_way.write_text("not a run")
    with pytest.raises(RunError, match=r"1 of 4 runs failed, .*ridge=1e\+06, seed 2'"):
        resume_sweep(out, Beside(2))
    log = in_the_way.parent.with_name("seed-2.log.txt")
    assert "seed-2" in log.read_text()
    before = {path: path.stat().st_mtime_ns for path in out.glob(f"cases/*/seed-*/{FILE_NAME}")}
    assert len(before) == 3

    in_the_way.unlink()
    capsys.readouterr()
    resume_sweep(out, Beside(1))
    assert "4 runs of 2 cases, 3 done before" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for case in made:
        results = RunResults.read(case.folder)
        assert sorted(results.seeds) == [1, 2]
        alone = [RunResults.read(run.folder).first for run in case.runs()]
        assert list(results.seeds.values()) == alone
        assert results.summary["final_accuracy"].half_width is not None
    with (out / "compare.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "final_accuracy"]
    assert [row["run"] for row in rows] == [case.name for case in made]
    assert all(float(row["half_width_95"]) >= 0 for row in rows)
    assert (out / "intervals.png").read_bytes().startswith(b"\x89PNG")
    assert "Intervals of the means" in (out / "compare.html").read_text()


def test_one_scenario_alone_is_a_sweep_too(tmp_path: Path) -> None:
    sweep(["digits-tiny"], ["seeds=[3]"], [], tmp_path / "one", Beside(1))
    assert RunResults.read(tmp_path / "one/cases/digits-tiny").seeds.keys() == {3}
    assert (tmp_path / "one/compare.html").is_file()


@pytest.mark.torch
@pytest.mark.nightly
def test_runs_are_tasks_on_a_cluster_with_the_same_results(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    sweep(["digits-tiny"], ["seeds=[2]"], [], tmp_path / "here", Beside(1))
    sweep(["digits-tiny"], ["seeds=[1, 2]"], [], tmp_path / "there", Beside(1, "local", 0.5))
    here, there = (
        RunResults.read(tmp_path / name / "cases/digits-tiny").seeds for name in ("here", "there")
    )
    assert there.keys() == {1, 2}
    assert there[2].stages[-1].accuracy == here[2].stages[-1].accuracy
