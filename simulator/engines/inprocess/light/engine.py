"""Engine `inprocess` with light agents: leads the fleet of one seed through its stages."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.learning.networks.network import Network
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.exchange import RoundParts
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.engines.inprocess.expected_answers import ExpectedAnswers
from fleetledger.simulator.engines.inprocess.light.fleet import LightFleet
from fleetledger.simulator.engines.inprocess.stage_engine import StageEngine
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.rounds import rounds_seconds
from fleetledger.simulator.engines.stages import is_learned
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import StagePlan

_HOPE_SECONDS = 900.0
"""Of the fleet's clock, past every deadline; what has not happened then never will."""
_COLLECTED_AFTER = (50_000, 20, 100)
"""New objects before the collector looks at them, and how often it does before it looks at older
ones; Python's own are 700, 10 and 10."""


class LightEngine(StageEngine):
    """A fleet of light agents; see `simulator.engines.interface.Engine`."""

    def __init__(self, prepared: Prepared, folder: Path, watch: Watch) -> None:
        self._fleet = LightFleet(prepared, folder, watch)
        super().__init__(prepared, folder, watch, self._fleet)
        if prepared.scenario.evaluation.ensemble:
            self._fleet.compare_with(self._compare)

    def wait_for_workers(self) -> None:
        """Wait until all workers are there, which otherwise join in when they are."""
        self._fleet.wait_for_workers()

    def close(self) -> None:
        """Close all files, and let the collector go through everything again."""
        gc.unfreeze()
        super().close()

    def _compare(self, number: int, names: Sequence[ClassName], parts: RoundParts) -> None:
        """Measure what answers to a round held, for its record."""
        network = self._state.lineages.trained
        side = training_coordinator(network.method)
        described = side.read_assignment(network.settings).network
        assert isinstance(described, Network), "no method tells models that segment"
        self._rounds.log.compared[number] = self._rounds.meter.parts_accuracy(
            described, names, parts
        )

    def _lead(self, stage: StagePlan) -> None:
        self._watch.phase(f"stage {stage.number}: data reach the devices")
        self._fleet.arrive(stage, self._online)
        self._arrived_ns = self._fleet.clock.time_ns()
        if not self._numbers(stage):
            self._fleet.coordinator.command(OpenStage(class_names=self._plan.names(stage.named)))
        self._watch.phase(f"stage {stage.number}: devices compute, the coordinator solves")
        limit = self._fleet.clock.now + self._scenario.engine.deadline_seconds
        with _nothing_goes():
            self._pursue(stage, limit + rounds_seconds(self._scenario) + _HOPE_SECONDS)
        self._fleet.install()

    def _pursue(self, stage: StagePlan, limit: float) -> None:
        fleet = self._fleet
        current = self._state.rounds.current
        if current is not None and current.closed is not None and not current.done:
            fleet.average_again(current)
        while not self._is_learned(stage):
            if not self._go_on(stage) and not self._leap(stage, limit):
                raise EngineError(f"stage {stage.number} does not end: {self._awaited()}")
        self._look_at_rounds(stage)

    def _go_on(self, stage: StagePlan) -> bool:
        """Do what there is to do now; return whether there was something.

        Rounds that are over are looked at while the next one is being trained.
        """
        current = self._state.rounds.current
        if current is not None and current.closed is None:
            self._fleet.carry_out(current, partial(self._look_at_rounds, stage))
            return True
        fleet = self._fleet
        # A score takes the proxy some time: what is due by then is done before.
        return fleet.count() or fleet.coordinator.decide_due() or fleet.score()

    def _leap(self, stage: StagePlan, limit: float) -> bool:
        """Let time pass to when the rules or the operator may act; return whether that is in time.

        The operator closes a stage for which the coordinator waits for devices that are away.
        """
        due, closing = self._fleet.coordinator.next_due(), self._closing(stage)
        moment = min(math.inf if due is None else due, closing)
        if moment > limit:
            return False
        self._fleet.clock.now = max(self._fleet.clock.now, moment)
        if closing <= moment:
            self._fleet.coordinator.command(CloseStage())
        return True

    def _closing(self, stage: StagePlan) -> float:
        """Return when the operator closes the stage; infinity while that is not for him to do."""
        expected = ExpectedAnswers(self._asked(stage), self._scenario.engine.quorum)
        if expected.is_everybody(self._state):
            return math.inf
        return expected.closes_at(self._state, self._numbers(stage), self._fleet.clock)

    def _is_learned(self, stage: StagePlan) -> bool:
        """Whether the stage is closed and its model is the one that devices are to run."""
        try:
            return is_learned(self._state, self._numbers(stage))
        except EngineError as error:
            raise EngineError(f"stage {stage.number}: {error}") from error

    def _awaited(self) -> str:
        """Say in words what is missing."""
        current = self._state.rounds.current
        if not self._state.lineages.in_rounds:
            return "the stage is not closed: too few devices have answered"
        if current is None:
            return "no round was opened: no device can train"
        closed = current.closed
        last = "" if closed is None else f": {closed.reason}"
        return f"round {current.opened.number} was the last{last}"


@contextmanager
def _nothing_goes() -> Iterator[None]:
    """Keep the garbage collector from going through what is there now, again and again.

    torch alone is 200,000 objects, which take as long as a thousand answers; they are gone through
    once, in the first stage, and again when the engine closes. What comes is mostly the
    coordinator's state, which stays: it is gone through less often, too.
    """
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECTED_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
