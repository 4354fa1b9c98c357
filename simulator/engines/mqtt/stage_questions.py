"""What the engine waits for in a stage: of agents by what they say of themselves, else the ledger.

Each question answers with what is still awaited, or None, and raises `EngineError` for what waiting
will not mend.

The ledger alone cannot tell that a device has nothing left to count: how many images of a delivery
count depends on the method, and twins count once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.device_agent.home.status_file import Status
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.engines.interface import Watch
from fleetledger.simulator.engines.mqtt.programs import Programs
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

    def rest_awaited(self, state: State, devices: Collection[DeviceId]) -> str | None:
        """Return which devices have something left to do for the newest stage.

        Before the first stage, and where a network is trained, that is to greet the coordinator.
        """
        stage = None if state.lineages.in_rounds else state.stages.current
        waiting = {name for name in devices if not self._rests(name, stage)}
        return f"{listed(waiting)} to be ready" if waiting else None

    def opening_awaited(self, state: State) -> str | None:
        """Return which classes of the stage have to be opened yet."""
        missing = {name for name in self._goal.names if not state.classes.knows(name)}
        if not missing and not ledger_stages(state, self._goal.plan, self._goal.stage):
            missing = set(self._goal.names)  # all of them return
        return f"the opening of a stage with {listed(missing)}" if missing else None

    def learning_awaited(self, state: State) -> str | None:
        """Return what devices have left to do: rounds of training, or something to count."""
        raise_what_failed(state)
        if not state.lineages.in_rounds:
            return self._counting_awaited(state)
        numbers = ledger_stages(state, self._goal.plan, self._goal.stage)
        current = state.rounds.current
        if current is None or is_closed(state, numbers):
            return self._closing_awaited(state)
        opened = current.opened
        answered = len(current.answers.keys() | current.nothing)
        self._show(answered, len(opened.cohort))
        return f"round {opened.round_of_stage} of {opened.rounds_of_stage}"

    def _counting_awaited(self, state: State) -> str | None:
        there, stage = self._goal.there, state.stages.current
        waiting = {name for name in there if not self._rests(name, stage)}
        self._show(len(there) - len(waiting), len(there))
        return f"the statistics of {listed(waiting)}" if waiting else None

    def stage_awaited(self, state: State) -> str | None:
        """Return what is missing until the stage is done."""
        return self.learning_awaited(state) or self._closing_awaited(state) or self._model(state)

    def _closing_awaited(self, state: State) -> str | None:
        numbers = ledger_stages(state, self._goal.plan, self._goal.stage)
        return None if is_closed(state, numbers) else "the end of the stage"

    def _model(self, state: State) -> str | None:
        """Return whether a model of everything has to be made, and who does not run it yet."""
        if not state.lineages.in_rounds and not state.contributions.sum.parts:
            raise EngineError(
                f"stage {self._goal.stage.number}: no device that is there has images of it, so "
                "there is no model; let one of them be online"
            )
        return (
            self._making_awaited(state)
            or activation_awaited(state, self._goal.there)
            or self._word_awaited(state)
        )

    def _making_awaited(self, state: State) -> str | None:
        """Return whether the stage's model is still to be made and desired."""
        if not state.lineages.in_rounds:
            return model_awaited(state)
        numbers = ledger_stages(state, self._goal.plan, self._goal.stage)
        model, opened = _desired_model(state), state.stages.by_number[numbers[0]].opened_index
        return None if model is not None and model.solved_index > opened else "the stage's model"

    def _word_awaited(self, state: State) -> str | None:
        """Return whose status does not count the bytes of the new model yet."""
        missing = set()
        for name in self._goal.there:
            status = self._programs.status(name)
            if status is None or status.active_version != state.models.desired_of_all:
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


def _desired_model(state: State) -> ModelVersion | None:
    """Return the model that all devices are to run, if there is one yet."""
    version = state.models.desired_of_all
    return None if version is None else state.models.by_version[version]


def model_awaited(state: State) -> str | None:
    """Return whether the desired model has to be solved from exactly what is held now yet."""
    model = _desired_model(state)
    if model is None or not state.contributions.unchanged_since(model.solved.ledger_size):
        return "a model solved from all contributions"
    return None


def activation_awaited(state: State, devices: Collection[DeviceId]) -> str | None:
    """Return which of these devices do not run the desired model yet."""
    models, version = state.models, state.models.desired_of_all
    missing = listed({name for name in devices if models.of(name).active_version != version})
    return f"model {version} on {missing}" if missing else None


def evaluation_awaited(state: State, questions: Mapping[DeviceId, int]) -> str | None:
    """Return which devices have not told yet how the desired model answers their questions.

    `questions` is the number of a device's test images; it is asked about no others.
    """
    version = state.models.desired_of_all
    assert version is not None
    told = {name: found.total for name, found in state.models.measured.get(version, {}).items()}
    missing = {device for device, asked in questions.items() if told.get(device, 0) != asked}
    return f"accuracy of model {version} from {listed(missing)}" if missing else None


def raise_what_failed(state: State) -> None:
    """Raise `EngineError` if no model can be made, or a device refused it, or rounds stopped."""
    failed, given = state.models.learning_failed, state.contributions
    if failed is not None and given.unchanged_since(failed.ledger_size or state.size):
        raise EngineError(f"the coordinator could not make a model: {failed.reason}")
    if state.rounds.void.stopped is not None:
        raise EngineError(state.rounds.void.stopped.reason)
    version = state.models.desired_of_all
    for name in state.devices.admitted:
        said = state.models.of(name)
        if said.model_versions_seen.get(version or 0) in ("failed", "rolled_back"):
            raise EngineError(f"{name}: model {version} {said.model_state}: {said.model_reason}")


def listed(names: Collection[ClassName] | Collection[DeviceId]) -> str:
    """Return the names in a row, sorted."""
    return ", ".join(sorted(names))
