"""Whole runs that end with a rollout: real candidates, real comparisons, a real verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.run_page import run_page
from fleetledger.simulator.rollouts.record import RolloutRecord
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.runs import resume_run, run_scenario
from fleetledger.simulator.scenario.loading import load_scenario

SMALL = (
    "devices.count=12",
    "stages.classes=4",
    "method.settings.map_width=64",
    "data.per_class=60",
    "rollout.held_out=60",
    "rollout.plan.groups=[5, 8, 1.0]",
    "rollout.plan.gates.alike=1",
    "rollout.plan.on_unsure='back'",
)
LOST = 'rollout.candidate.of_class="2"'
QUIET = Console(quiet=True)


def run(name: str, out: Path, *overrides: str) -> RunResults:
    return run_scenario(load_scenario(f"digits-rollout-{name}", (*SMALL, *overrides)), out, QUIET)


def record_of(results: RunResults) -> RolloutRecord:
    assert results.first.rollout is not None
    return results.first.rollout


def test_a_good_candidate_goes_out_to_all_and_to_those_who_come_back(tmp_path: Path):
    record = record_of(run("good", tmp_path / "run", "rollout.silent=0.2"))
    assert (record.end, record.ever, record.devices) == ("finished", 12, 12)
    assert record.exposure[-1].running == 12
    assert [(phase.group, phase.mode) for phase in record.phases] == [
        (1, "shadow"),
        (1, "run"),
        (2, "run"),
        (3, "run"),
    ]
    assert {phase.outcome for phase in record.phases} == {"pass"}
    assert record.unreached == 2


@pytest.mark.nightly
def test_a_lost_class_is_found_before_all_devices_run_it_and_all_go_back(tmp_path: Path):
    results = run("bad-class", tmp_path / "run", LOST)
    record = record_of(results)
    assert record.end == "rolled back"
    assert record.ever <= 8
    assert record.exposure[-1].running == 0
    against = [one for one in record.phases[-1].gates if one.outcome != "pass"]
    assert ("no_class_lost", "2") in {(one.gate, one.of_class) for one in against}
    assert record.reason in run_page(results, [])


@pytest.mark.parametrize(
    ("name", "gate"),
    [pytest.param("slow", "latency", marks=pytest.mark.nightly), ("crashing", "health")],
)
def test_what_is_slow_or_does_not_run_never_leaves_the_first_group(
    tmp_path: Path, name: str, gate: str
):
    record = record_of(run(name, tmp_path / "run"))
    assert record.end == "rolled back"
    assert {phase.group for phase in record.phases} == {1}
    assert record.ever == 0
    assert gate in {one.gate for one in record.phases[-1].gates if one.outcome == "fail"}


@pytest.mark.nightly
def test_a_rollout_to_a_tag_is_about_the_devices_that_have_it(tmp_path: Path):
    tags = 'rollout.plan.tags=[{name = "camera", value = "dim"}]'
    changes = (tags, "rollout.cameras.share=0.5", "rollout.plan.groups=[4, 1.0]")
    record = record_of(run("one-camera", tmp_path / "run", *changes))
    assert (record.members, record.devices) == (6, 12)
    assert record.end == "rolled back"
    assert record.ever <= 4


@pytest.mark.nightly
def test_devices_on_which_nothing_can_be_installed_fail_alone(tmp_path: Path):
    changes = ("rollout.failing=0.05", "rollout.plan.retries=0")
    record = record_of(run("good", tmp_path / "run", "rollout.silent=0.0", *changes))
    assert (record.end, record.failed, record.ever) == ("finished", 1, 11)


@pytest.mark.nightly
def test_a_run_that_was_stopped_before_its_rollout_goes_on_with_it(tmp_path: Path):
    first = run("bad-class", tmp_path / "run", LOST)
    folder = RunFolder.open(tmp_path / "run").seed(1)
    (folder.root / "rollout.json").unlink()
    again = resume_run(tmp_path / "run", QUIET)
    assert record_of(again).phases == record_of(first).phases


@pytest.mark.torch
def test_an_adapter_goes_out_where_devices_without_part_in_it_say_that_it_is_better(
    tmp_path: Path,
) -> None:
    scenario = load_scenario("digits-adapter")
    record = record_of(run_scenario(scenario, tmp_path / "run", QUIET))
    assert (record.end, record.ever) == ("finished", 20)
    gates = {one.gate: one for one in record.phases[0].gates}
    assert (gates["better"].outcome, gates["better"].counts[-1]) == ("pass", 10)
