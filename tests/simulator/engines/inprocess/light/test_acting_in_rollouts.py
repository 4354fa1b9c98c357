"""In rollouts light agents that act leave the entries and verdicts of whole agents."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.topics.rollouts.gates import GateFinding
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.rollouts.record import RolloutRecord
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.loading import load_scenario
from tests.simulator.engines.inprocess.light.both import MEASURED_GATES, TIMED, told
from tests.simulator.rollouts.test_whole_runs import LOST, SMALL
from tests.simulator.rounds.small import Watching

DIM = (
    'rollout.plan.tags=[{name = "camera", value = "dim"}]',
    "rollout.cameras.share=0.5",
    "rollout.plan.groups=[4, 1.0]",
)
FAILING = ("rollout.silent=0.0", "rollout.failing=0.05", "rollout.plan.retries=0")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("crashing", ()),
        pytest.param("good", ("rollout.silent=0.2",), marks=pytest.mark.nightly),
        pytest.param("bad-class", (LOST,), marks=pytest.mark.nightly),
        pytest.param("one-camera", DIM, marks=pytest.mark.nightly),
        pytest.param("good", FAILING, marks=pytest.mark.nightly),
    ],
    ids=["crashing", "good", "bad-class", "one-camera", "failing"],
)
def test_a_rollout(name: str, changes: tuple[str, ...], tmp_path: Path) -> None:
    assert_same(prepared(f"digits-rollout-{name}", (*SMALL, *changes)), tmp_path)


@pytest.mark.nightly
@pytest.mark.torch
def test_an_adapter_is_trained_and_goes_out(tmp_path: Path) -> None:
    assert_same(prepared("digits-adapter", ()), tmp_path)


def prepared(name: str, changes: tuple[str, ...]) -> Prepared:
    # How long models take here decides nothing of what is compared.
    scenario = load_scenario(name, (*changes, "rollout.plan.gates.latency=1000.0"))
    return PreparedSeed.load(scenario, scenario.seeds[0]).prepare(Watching())


def assert_same(what: Prepared, folder: Path) -> None:
    full, timed = (
        rolled_out(make, what, folder / name)
        for name, make in (("full", InProcessEngine), ("timed", TIMED))
    )
    assert timed[0] == full[0]
    assert decided(timed[1]) == decided(full[1])


def rolled_out(make: Any, what: Prepared, folder: Path) -> tuple[list[Any], RolloutRecord]:
    with closing(make(what, folder, Watching())) as engine:
        for stage in what.plan.stages:
            engine.learn(stage)
        record = engine.roll_out()
        entries = engine._fleet.coordinator.engine.ledger.entries()
        return told([(entry, read_entry(entry.kind, entry.body)) for entry in entries]), record


def decided(record: RolloutRecord) -> tuple[Any, ...]:
    phases = [(one.group, one.mode, one.outcome, *map(gate_of, one.gates)) for one in record.phases]
    return record.end, record.ever, record.failed, record.unreached, phases


def gate_of(found: GateFinding) -> tuple[str, str]:
    return found.gate, "" if found.gate in MEASURED_GATES else found.outcome
