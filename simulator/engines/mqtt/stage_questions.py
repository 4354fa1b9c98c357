"""What the engine waits for in a stage: of agents by what they say of themselves, else the ledger.

The ledger alone cannot tell that a device has nothing left to count: how many images of a delivery
count depends on the method, and twins count once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fleetledger.device_agent.status import Status
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.engines.interface import Watch
from fleetledger.simulator.engines.mqtt.programs import Programs
from fleetledger.simulator.engines.mqtt.questions import (
    activation_awaited,
    listed,
    model_awaited,
    raise_what_failed,
)
from fleetledger.simulator.engines.mqtt.view import FleetView
from fleetledger.simulator.engines.stages import is_closed, ledger_stages
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan


@dataclass(frozen=True)
class StageGoal:
    """What a stage has to come to."""

    plan: FleetPlan
    stage: StagePlan
    names: frozenset[ClassName]
    """Classes that have to be opened."""
    there: tuple[DeviceId, ...]
    """Devices that learn the stage."""


class StageQuestions:
    """Questions about one stage; each answers with what is still awaited, or None."""

    def __init__(self, goal: StageGoal, programs: Programs, watch: Watch) -> None:
        self._goal = goal
        self._programs = programs
        self._watch = watch
        self._done = (-1, -1)

    def rest_awaited(self, view: FleetView, devices: Collection[DeviceId]) -> str | None:
        """Return which devices have something left to do for the newest stage.

        Before the first stage, and where a network is trained, that is to greet the coordinator.
        """
        stage = None if view.state.lineages.in_rounds else view.state.stages.current
        waiting = {name for name in devices if not self._rests(name, stage)}
        return f"{listed(waiting)} to be ready" if waiting else None

    def opening_awaited(self, view: FleetView) -> str | None:
        """Return which classes of the stage have to be opened yet."""
        missing = {name for name in self._goal.names if not view.state.classes.knows(name)}
        return f"the opening of a stage with {listed(missing)}" if missing else None

    def learning_awaited(self, view: FleetView) -> str | None:
        """Return what devices have left to do: rounds of training, or something to count."""
        raise_what_failed(view)
        if not view.state.lineages.in_rounds:
            return self._counting_awaited(view)
        numbers = ledger_stages(view.state, self._goal.plan, self._goal.stage)
        current = view.state.rounds.current
        if current is None or is_closed(view.state, numbers):
            return self._closing_awaited(view)
        opened = current.opened
        answered = len(current.answers.keys() | current.nothing)
        self._show(answered, len(opened.cohort))
        return f"round {opened.round_of_stage} of {opened.rounds_of_stage}"

    def _counting_awaited(self, view: FleetView) -> str | None:
        there, stage = self._goal.there, view.state.stages.current
        waiting = {name for name in there if not self._rests(name, stage)}
        self._show(len(there) - len(waiting), len(there))
        return f"the statistics of {listed(waiting)}" if waiting else None

    def stage_awaited(self, view: FleetView) -> str | None:
        """Return what is missing until the stage is done."""
        return self.learning_awaited(view) or self._closing_awaited(view) or self._model(view)

    def _closing_awaited(self, view: FleetView) -> str | None:
        numbers = ledger_stages(view.state, self._goal.plan, self._goal.stage)
        return None if is_closed(view.state, numbers) else "the end of the stage"

    def _model(self, view: FleetView) -> str | None:
        """Return whether a model of everything has to be made, and who does not run it yet."""
        if not view.state.lineages.in_rounds and not view.state.contributions.sum.parts:
            raise EngineError(
                f"stage {self._goal.stage.number}: no device that is there has images of it, so "
                "there is no model; let one of them be online"
            )
        return (
            self._making_awaited(view)
            or activation_awaited(view, self._goal.there)
            or self._word_awaited(view)
        )

    def _making_awaited(self, view: FleetView) -> str | None:
        """Return whether the stage's model is still to be made and desired."""
        if not view.state.lineages.in_rounds:
            return model_awaited(view)
        numbers = ledger_stages(view.state, self._goal.plan, self._goal.stage)
        model, opened = view.desired_model, view.state.stages.by_number[numbers[0]].opened_index
        return None if model is not None and model.solved_index > opened else "the stage's model"

    def _word_awaited(self, view: FleetView) -> str | None:
        """Return whose status does not count the bytes of the new model yet."""
        missing = set()
        for name in self._goal.there:
            status = self._programs.status(name)
            if status is None or status.active_version != view.desired:
                missing.add(name)
        return f"the status of {listed(missing)}" if missing else None

    def _rests(self, device: DeviceId, stage: int | None) -> bool:
        status = self._programs.status(device)
        return status is not None and _is_at_rest(status, stage)

    def _show(self, done: int, total: int) -> None:
        if (done, total) != self._done:
            self._watch.agents(done, total)
            self._done = (done, total)


def _is_at_rest(status: Status, stage: int | None) -> bool:
    if stage is None:
        return status.coordinator
    return status.coordinator and status.stage == stage and status.settled
