"""Devices act by themselves where time counts; workers train those that are told what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import parse_scenario
from fleetledger.simulator.scenario.model import asked_of_time


@pytest.mark.parametrize(
    ("engine", "field"),
    [
        ("latency_ms = 5.0", "engine.latency_ms 5.0"),
        ('kind = "mqtt"', "engine.kind 'mqtt'"),
        ('training = "stack"', "engine.training 'stack'"),
        ('device = "cuda"', "engine.device 'cuda'"),
    ],
)
def test_workers_train_in_a_loop_on_the_processor(engine: str, field: str) -> None:
    head = 'title = "light"\n[method]\nname = "rounds"\n[engine]\nworkers = 3\n'
    with pytest.raises(ScenarioError, match=f"engine.workers: 3 beside {field}"):
        parse_scenario("s", head + engine, Path())
    assert parse_scenario("s", head, Path()).engine.workers == 3


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", None),
        ("[engine]\nlatency_ms = 5.0", "engine.latency_ms"),
        ("[devices]\nstragglers = 0.1", "devices.stragglers"),
        ('[devices]\nslowest = 9\n[method]\nname = "rounds"', "devices.slowest"),
        ('[rounds.asynchronous]\n[method]\nname = "rounds"', "rounds.asynchronous"),
        ("[privacy]\nmasks = true\nleast = 3", "privacy.masks"),
        ('[stages]\nopened_by = "reports"', "stages.opened_by"),
        ('[detection]\nmode = "baseline"', "detection.mode"),
        ("[rollout]", "rollout.candidate.kind"),
    ],
)
def test_devices_act_in_time_where_something_asks_for_it(text: str, field: str | None) -> None:
    asked = asked_of_time(parse_scenario("s", f'title = "x"\n{text}\n', Path()))
    assert list(asked) == ([] if field is None else [field])


def test_a_fleet_that_makes_no_masked_cohort_is_refused() -> None:
    text = 'title = "x"\n[devices]\ncount = 5\n[privacy]\nmasks = true\n'
    with pytest.raises(ScenarioError, match=r"privacy\.least: 8 with 5 devices"):
        parse_scenario("s", text, Path())
