"""Light agents leave things out, and a scenario that asks for these is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import parse_scenario
from fleetledger.simulator.scenario.model import agents_of

HEAD = 'title = "light"\n[method]\nname = "rounds"\n[engine]\nagents = "light"\n'


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ("agents_in_memory = 9", "engine.agents_in_memory: 9"),
        ('kind = "mqtt"', "engine.kind: 'mqtt'"),
    ],
)
def test_what_needs_programs_is_refused_by_name(more: str, field: str) -> None:
    with pytest.raises(ScenarioError, match=f"{field} beside engine.agents 'light'"):
        parse_scenario("s", HEAD + more, Path())


@pytest.mark.parametrize(
    "method",
    ['[method]\nname = "stsa"\n', '[method]\nname = "stsa"\n[method.first_stage]\nrounds = 2\n'],
)
def test_methods_of_statistics_may_have_light_agents(method: str) -> None:
    made = parse_scenario("s", f'title = "x"\n{method}[engine]\nagents = "light"\n', Path())
    assert made.engine.agents == "light"


@pytest.mark.parametrize("preset", ["without-psr", "fedavg", "fedavg-exemplars"])
def test_lga_may_have_light_agents_where_it_needs_no_proxy(preset: str) -> None:
    method = f'[method]\nname = "lga"\n[method.settings]\npreset = "{preset}"\n'
    made = parse_scenario("s", f'title = "x"\n{method}[engine]\nagents = "light"\n', Path())
    assert made.engine.agents == "light"


def test_a_usual_scenario_may_have_light_agents() -> None:
    assert parse_scenario("s", HEAD, Path()).engine.agents == "light"


@pytest.mark.parametrize(
    ("engine", "field"),
    [
        ('agents = "full"', "engine.agents 'full'"),
        ('agents = "light"\nlatency_ms = 5.0', "engine.latency_ms 5.0"),
        ("latency_ms = 5.0", "engine.latency_ms 5.0"),
        ('training = "stack"', "engine.training 'stack'"),
        ('agents = "light"\ndevice = "cuda"', "engine.device 'cuda'"),
    ],
)
def test_workers_train_light_agents_in_a_loop_on_the_processor(engine: str, field: str) -> None:
    head = 'title = "light"\n[method]\nname = "rounds"\n[engine]\nworkers = 3\n'
    with pytest.raises(ScenarioError, match=f"engine.workers: 3 beside {field}"):
        parse_scenario("s", head + engine, Path())
    assert parse_scenario("s", head, Path()).engine.workers == 3


def test_agents_are_light_unless_somebody_wants_whole_ones() -> None:
    assert agents_of(parse_scenario("s", 'title = "x"\n', Path())) == "light"
    full = 'title = "x"\n[engine]\nagents = "full"\n'
    assert agents_of(parse_scenario("s", full, Path())) == "full"


@pytest.mark.parametrize(
    "text",
    [
        "latency_ms = 5.0",
        "[devices]\nstragglers = 0.1",
        '[stages]\nopened_by = "reports"',
        '[detection]\nmode = "baseline"',
        "[rollout]",
    ],
)
def test_light_agents_act_in_time_where_something_asks_for_it(text: str) -> None:
    for agents in ("auto", "light"):
        toml = f'title = "x"\n[engine]\nagents = "{agents}"\n{text}\n'
        assert agents_of(parse_scenario("s", toml, Path())) == "timed"
