"""Runs that are cut off in rounds, or in a rollout, come to the same end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionWithdrawn
from fleetledger.coordinator.topics.rollouts.gates import GateFinding
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.rollouts.record import RolloutRecord
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.simulator.virtual.loop import Loop
from tests.simulator.engines.inprocess.light.both import MEASURED_GATES
from tests.simulator.engines.inprocess.small import bodies, digests
from tests.simulator.rollouts.test_whole_runs import LOST, SMALL
from tests.simulator.rounds.small import Watching, small, with_proxy
from tests.simulator.rounds.small import prepared as prepared_rounds

Came = TypeVar("Came")
NIGHTLY = pytest.mark.nightly
BY_NIGHT = [pytest.param(number / 20, marks=NIGHTLY) for number in range(1, 20)]


class PowerCutError(Exception):
    pass


class Steps:
    """Counts the steps of the virtual world, and may end everything after some of them."""

    def __init__(self) -> None:
        self.taken = 0
        self.left: int | None = None

    def cut(self, left: int | None) -> None:
        self.taken, self.left = 0, left

    @contextmanager
    def counted(self) -> Iterator[None]:
        step = Loop.step

        def counted(loop: Loop) -> None:
            if self.taken == self.left:
                raise PowerCutError
            self.taken += 1
            step(loop)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Loop, "step", counted)
            yield


def run_on(what: Prepared, folder: Path, act: Callable[[InProcessEngine], Came]) -> Came:
    engine = InProcessEngine(what, folder, Watching())
    try:
        return act(engine)
    finally:
        engine.close()


def undisturbed_and_cut(
    what: Prepared, folder: Path, act: Callable[[InProcessEngine], Came], share: float
) -> tuple[Came, Came]:
    """Return what comes of a run, and of one that is cut off after a share of its steps."""
    steps = Steps()
    with steps.counted():
        undisturbed = run_on(what, folder / "undisturbed", act)
        steps.cut(int(steps.taken * share))
        with pytest.raises(PowerCutError):
            run_on(what, folder / "cut", act)
        steps.cut(None)
        return undisturbed, run_on(what, folder / "cut", act)


def learned(what: Prepared) -> Callable[[InProcessEngine], list[Any]]:
    def act(engine: InProcessEngine) -> list[Any]:
        records = [engine.learn(stage) for stage in what.plan.stages]
        assert not [body for _, body in bodies(engine) if isinstance(body, ContributionWithdrawn)]
        memories = {name: one._memory.records for name, one in engine._fleet.devices.items()}
        kept = {name: (records.memory, records.exemplars) for name, records in memories.items()}
        return [digests(records), kept]

    return act


def prepared(name: str, changes: tuple[str, ...]) -> Prepared:
    # How long models take here decides nothing of what is compared.
    scenario = load_scenario(name, (*changes, "rollout.plan.gates.latency=1000.0"))
    return PreparedSeed.load(scenario, scenario.seeds[0]).prepare(Watching())


def decided(record: RolloutRecord) -> tuple[Any, ...]:
    """Return what a rollout came to, without what is measured."""
    phases = [(one.group, one.mode, one.outcome, *map(gate_of, one.gates)) for one in record.phases]
    return record.end, record.ever, record.failed, record.unreached, phases


def gate_of(found: GateFinding) -> tuple[str, str]:
    return found.gate, "" if found.gate in MEASURED_GATES else found.outcome


@pytest.mark.torch
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("share", [0.8, *BY_NIGHT])
def test_rounds_with_exemplars(share: float, tmp_path: Path) -> None:
    settings = {"preset": "fedavg-exemplars", "exemplars": 12}
    what = prepared_rounds(small(method={"settings": settings}))
    undisturbed, cut = undisturbed_and_cut(what, tmp_path, learned(what), share)
    assert cut == undisturbed


@pytest.mark.torch
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("share", [0.6, *BY_NIGHT])
def test_rounds_with_a_proxy(share: float, tmp_path: Path) -> None:
    what = prepared_rounds(with_proxy())
    undisturbed, cut = undisturbed_and_cut(what, tmp_path, learned(what), share)
    assert cut == undisturbed


@pytest.mark.parametrize("share", [0.55, 0.9, *BY_NIGHT])
def test_a_rollout(share: float, tmp_path: Path) -> None:
    what = prepared("digits-rollout-bad-class", (*SMALL, LOST))

    def act(engine: InProcessEngine) -> Any:
        for stage in what.plan.stages:
            engine.learn(stage)
        return decided(engine.roll_out())

    undisturbed, cut = undisturbed_and_cut(what, tmp_path, act, share)
    assert cut == undisturbed
    assert undisturbed[0] == "rolled back"


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_an_adapter(share: float, tmp_path: Path) -> None:
    what = prepared("digits-adapter", ())

    def act(engine: InProcessEngine) -> Any:
        for stage in what.plan.stages:
            engine.learn(stage)
        return decided(engine.roll_out())

    undisturbed, cut = undisturbed_and_cut(what, tmp_path, act, share)
    assert cut == undisturbed
