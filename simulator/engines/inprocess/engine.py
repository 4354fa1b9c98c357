"""Engine `inprocess`: leads the fleet of one seed through the stages of its plan."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.expected_answers import ExpectedAnswers, StageCloser
from fleetledger.simulator.engines.inprocess.fleet import Fleet
from fleetledger.simulator.engines.inprocess.progress import AwaitedStage, Progress
from fleetledger.simulator.engines.inprocess.rollout import RolloutTask, roll_out
from fleetledger.simulator.engines.inprocess.stage_engine import StageEngine
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.presence import delivered, needed_names, opens_by_itself
from fleetledger.simulator.engines.rounds import rounds_seconds
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.rollouts.held_out import RolloutFleet
from fleetledger.simulator.rollouts.record import RolloutRecord

_HOPE_SECONDS = 900.0
"""Of the fleet's clock, past every deadline and delay; what has not happened then never will."""
_SETTLE_SECONDS = 10.0
"""Devices that were switched on get so long to connect, and to give what they held back."""


class InProcessEngine(StageEngine):
    """A fleet in this process; see `simulator.engines.interface.Engine`."""

    def __init__(self, prepared: Prepared, folder: Path, watch: Watch) -> None:
        self._fleet = Fleet(prepared, folder)
        self._prepared = prepared
        super().__init__(prepared, folder, watch, self._fleet)

    def roll_out(self) -> RolloutRecord:
        """Let a candidate go out; see `simulator.engines.interface.RollsOut`."""
        settings, last = self._scenario.rollout, self._plan.stages[-1]
        assert settings is not None, "the scenario ends with a rollout"
        taking_part = RolloutFleet.drawn(settings, self._plan)
        there = tuple(name for name in taking_part.devices if name not in taking_part.silent)
        self._arrive(last, there)
        return roll_out(
            RolloutTask(
                self._fleet,
                taking_part,
                self._folder / "coordinator",
                self._prepared.split.test,
                self._watch,
            )
        )

    def _lead(self, stage: StagePlan) -> None:
        online = self._online(stage)
        self._arrive(stage, online)
        if not self._numbers(stage) and not opens_by_itself(self._scenario, stage):
            self._fleet.command(OpenStage(class_names=self._plan.names(stage.named)))
        self._delay(stage, online)
        self._watch.phase(f"stage {stage.number}: devices compute, the coordinator solves")
        goal = AwaitedStage(self._plan, stage, needed_names(self._prepared, stage, online), online)
        self._pursue(Progress(self._fleet, goal), stage, online)

    def _arrive(self, stage: StagePlan, online: tuple[DeviceId, ...]) -> None:
        """Switch on who is there, with all data that reached them, and off who is not."""
        self._watch.phase(f"stage {stage.number}: data reach the devices")
        there = set(online)
        for name, device in self._fleet.devices.items():
            if device.on and name not in there:
                device.stop()
        self._fleet.admit(stage.devices)
        # Who comes first gives what it held back; of a stage that is open it has everything.
        before = stage.number if self._numbers(stage) else stage.number - 1
        came = [
            name
            for name in online
            if self._fleet.switch_on(name, delivered(self._plan, name, before))
        ]
        self._delay(stage, online)
        if came:
            self._settle(came)
        for name in online:
            self._fleet.device(name).jobs.delivered = delivered(self._plan, name, stage.number)
        self._arrived_ns = self._fleet.world.loop.clock.time_ns()

    def _settle(self, came: list[DeviceId]) -> None:
        world, live = self._fleet.world, self._fleet.coordinator.live
        end = world.now + _SETTLE_SECONDS
        world.loop.at(end, lambda: None)

        def settled() -> bool:
            return world.now >= end and all(
                live.device(name).boot is not None and self._fleet.device(name).unanswered == 0
                for name in came
                if self._fleet.device(name).busy_until <= world.now
            )

        if not world.run(settled, lambda: end + _HOPE_SECONDS):
            raise EngineError(
                f"of {count_of(len(came), 'device')} that came not all have connected"
            )

    def _delay(self, stage: StagePlan, online: tuple[DeviceId, ...]) -> None:
        """Let the late be busy from the opening of the stage on, or, before it, from now."""
        numbers, clock = self._numbers(stage), self._fleet.world.loop.clock
        if numbers:
            since = clock.at(self._fleet.coordinator.state.stages.by_number[numbers[0]].opened_ns)
        elif opens_by_itself(self._scenario, stage):
            since = clock.now
        else:
            return
        for name in online:
            delay = stage.devices[name].delay_seconds
            if delay:
                self._fleet.device(name).keep_busy(since + delay)

    def _pursue(self, progress: Progress, stage: StagePlan, online: tuple[DeviceId, ...]) -> None:
        engine, world = self._scenario.engine, self._fleet.world
        delay = max((stage.devices[name].delay_seconds for name in online), default=0.0)
        limit = world.now + engine.deadline_seconds + delay + _HOPE_SECONDS
        limit += rounds_seconds(self._scenario)
        expected = ExpectedAnswers(self._asked(stage), engine.quorum)
        closing = StageCloser(self._fleet, progress, expected)
        seen = -1

        def done() -> bool:
            nonlocal seen
            size = self._fleet.coordinator.state.size
            if size != seen:
                seen = size
                closing.close_if_due()
                self._look_at_rounds(stage)
                self._watch.agents(progress.answered(), len(online))
            return progress.done()

        if not world.run(done, lambda: limit):
            raise EngineError(f"stage {stage.number} does not end: {progress.awaited()}")
