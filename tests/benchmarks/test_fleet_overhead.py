"""The bench beside other frameworks: ratios of equal turns, fair comparisons, absent peers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.speed.fleet_overhead import environments, run
from benchmarks.speed.fleet_overhead.commands import CASES, OURS, RIVALS, SIDES, words_of
from benchmarks.speed.fleet_overhead.environments import Peer, python_of
from benchmarks.speed.fleet_overhead.ratios import Spread, accuracy, apart, later, ratio
from benchmarks.speed.fleet_overhead.sides.telling import mark, mark_all
from benchmarks.speed.fleet_overhead.tables import summary, tables


def measured(*rounds: list[float], **more: Any) -> dict[str, Any]:
    """Return a side with a run for each list of seconds."""
    about = {"wall_seconds": 9.0, "load_before": 0.1, "versions": {"one": "1.0"}}
    about |= {"own_peak_mib": 20.0, **more}
    runs = [{"round_seconds": one, "round_process_seconds": one, **about} for one in rounds]
    return {"runs": runs, "summary": summary(runs)}


def test_a_ratio_is_of_rounds_between_the_first_and_the_last_in_the_same_turn() -> None:
    assert list(later([9.0, 1.0, 2.0, 9.0])) == [1.0, 2.0]
    assert list(later([9.0, 1.0])) == [1.0]
    ours = measured([9, 1, 1, 9], [9, 4, 4, 9], [9, 2, 2, 9])
    theirs = measured([5, 2, 2, 5], [5, 2, 2, 5], [5, 2, 2, 5])
    assert ratio(ours, theirs, "round_seconds") == Spread(1.0, 0.5, 2.0)


def test_a_side_with_one_run_stands_beside_all_runs_of_the_other() -> None:
    found = ratio(measured([9, 1, 9], [9, 3, 9]), measured([9, 2, 9]), "round_seconds")
    assert found == Spread(1.0, 0.5, 1.5)
    assert str(found) == "1 (0.5 to 1.5)"


def test_accuracies_are_apart_where_chance_does_not_explain_it() -> None:
    assert not apart(0.90, 0.91, samples=4000)
    assert apart(0.90, 0.93, samples=4000)
    assert not apart(0.90, 0.93, samples=400)
    assert accuracy(measured([1, 2])) is None


def test_the_page_tells_ratios_and_an_unfair_comparison() -> None:
    fair, unfair = measured([9, 2, 9], accuracy=0.9), measured([9, 4, 9], accuracy=0.5)
    sides = {"fleetledger-light": measured([9, 1, 9], accuracy=0.91), "pfl": fair, "fluke": unfair}
    case = {"agents": 100, "floats": None, "sides": sides}
    page = tables({"machine": {"cores": 2}, "cases": {"trained": case}})
    ours = "| fleetledger, `inprocess` with light agents, clock |"
    assert f"{ours} 0.5 (0.5 to 0.5) | 0.25 (0.25 to 0.25) |" in page
    assert page.count("**Unfair**") == 1
    assert "fluke at 50.0 %" in page
    assert "| 91.0 to 91.0 |" in page


def test_the_results_make_the_page_beside_them() -> None:
    result = json.loads(run.RESULTS.read_text("utf-8"))
    assert tables(result) == run.RESULTS.with_suffix(".md").read_text("utf-8")


def test_memory_is_that_of_the_run_that_was_watched_if_there_was_one() -> None:
    runs = measured([1, 2, 3], [1, 2, 3], own_peak_mib=30.0)["runs"]
    assert summary(runs)["peak_mib"] == 30.0
    assert summary(runs, {"peak_mib": 50.0})["peak_mib"] == 50.0


def test_what_is_measured_again_replaces_what_was_stored() -> None:
    old = {"cases": {"small": {"sides": {"pfl": 1, "numpy": 2}}}}
    found = run.joined(old, "small", {"pfl": {"runs": measured([1, 2, 3])["runs"]}})
    sides = found["cases"]["small"]["sides"]
    assert sides["numpy"] == 2
    assert sides["pfl"]["summary"]["round_seconds"]["median"] == 2


def test_every_rival_does_both_tasks_and_quick_leaves_out_what_is_slow() -> None:
    for side in RIVALS:
        for name, case in CASES.items():
            words = words_of(side, case, quick=False)
            assert words is not None, name
            assert Path(words[0]).exists()
    assert words_of("flwr", CASES["large"], quick=True) is None
    assert words_of("fleetledger-stack", CASES["small"], quick=False) is None
    assert words_of("fleetledger-stack", CASES["trained"], quick=True) == [
        *("-m", "benchmarks.speed.fleet_overhead.trained.ours"),
        *("100", str(CASES["trained"].quick_rounds), "stack"),
    ]
    assert set(OURS) < set(SIDES)


def test_a_peer_without_its_python_is_skipped_with_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(environments.PEERS, "new", Peer("new>=3", "new", ("python9.99",)))
    assert python_of("new", tmp_path, "torch") is None
    said = "skipped: new>=3 cannot be installed here: none of python9.99 is on the PATH\n"
    assert capsys.readouterr().out == said


def test_a_rival_that_fails_is_left_out_and_one_of_ours_ends_the_bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(command: list[str], *_: Any, seed: int) -> dict[str, Any]:
        if command == ["broken"]:
            raise RuntimeError("no room")
        return measured([1, 2, 3], seed=seed)["runs"][0]

    monkeypatch.setattr(run, "measure", measure)
    commands = {"pfl": ["broken"], "fleetledger-light": ["good"]}
    found = run.measure_all("small", commands, 2, quick=True)
    assert [one["seed"] for one in found["fleetledger-light"]["runs"]] == [1, 2]
    assert "left out: small, pfl: no room" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="no room"):
        run.measure_all("small", {"fleetledger-light": ["broken"]}, 1, quick=True)


def test_seconds_of_programs_that_were_begun_count_too() -> None:
    spin = "sum(range(20_000_000)); print(flush=True); input()"
    command = [sys.executable, "-c", spin]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as beside:
        assert beside.stdout is not None
        beside.stdout.readline()
        with_it, without = mark_all().process, mark().process
        beside.communicate(b"\n")
    assert with_it > without + 0.05


@pytest.mark.torch
def test_the_trained_task_is_one_network_for_all() -> None:
    import torch

    from benchmarks.speed.fleet_overhead.trained import ours, task
    from fleetledger.simulator.scenario.model import Scenario

    asked = Scenario.model_validate(ours.scenario(4, 2, "stack", 0))
    assert asked.engine.training == "stack"
    split = ours.bench_samples(None, 1, clients=4)
    assert len(split.train) == 4 * task.SAMPLES
    parts = ours.bench_rows(split.train.labels, 4, None)
    assert [slice(int(part[0]), int(part[-1]) + 1) for part in parts] == list(
        map(task.rows, range(4))
    )
    assert isinstance(ours.convnet((1, task.SIDE, task.SIDE)), torch.nn.Module)
    train, test = task.samples(4)
    model = task.network()
    before = task.accuracy(model, test)
    for _ in range(10):
        task.train(model.train(), *map(torch.from_numpy, train))
    assert task.accuracy(model, test) > before + 0.3
