"""Whether a stage is done, and what it waits for if not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.topics.devices.entries import DeviceProblem
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.engines.inprocess.fleet import Fleet
from fleetledger.simulator.engines.stages import is_closed, is_learned, ledger_stages
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan

_NAMED = 5


@dataclass(frozen=True)
class AwaitedStage:
    """What a stage has to come to."""

    plan: FleetPlan
    stage: StagePlan
    names: frozenset[ClassName]
    """Classes that have to be opened."""
    devices: tuple[DeviceId, ...]
    """Those that are there; all of them end with the new model, but for the late."""


class Progress:
    """Looks at fleet and ledger; cheap to ask after every event."""

    def __init__(self, fleet: Fleet, goal: AwaitedStage) -> None:
        self._fleet = fleet
        self._goal = goal
        self._seen = -1
        self._waited = list(reversed(goal.devices))
        self._ready = False

    @property
    def stages(self) -> tuple[int, ...]:
        """Numbers in the ledger of what the stage opened so far."""
        return ledger_stages(self._state, self._goal.plan, self._goal.stage)

    def answered(self) -> int:
        """Count the devices that have answered: the stage, or its newest round."""
        stages, given, current = self.stages, self._state.contributions, self._state.rounds.current
        if self._state.lineages.in_rounds:
            return 0 if current is None else len(current.answers.keys() | current.nothing)
        return sum(
            bool(stages) and all(given.of(name).answered(number) for number in stages)
            for name in self._goal.devices
        )

    def done(self) -> bool:
        """Whether the stage is closed, its model made, and running where it should.

        Raises `EngineError` when that cannot be any more.
        """
        model = self._model()
        if model is None:
            return False
        while self._waited and self._runs(self._waited[-1], model):
            self._waited.pop()
        return not self._waited

    def awaited(self) -> str:
        """Say in words what is missing."""
        return "; ".join((*self._missing(), *self._problems()))

    @property
    def _state(self) -> State:
        return self._fleet.coordinator.state

    def _model(self) -> ModelVersion | None:
        """Return the stage's model once it is desired, looking only when entries have come."""
        if self._is_news():
            self._ready = self._is_ready()
        return self._state.models.newest if self._ready else None

    def _is_news(self) -> bool:
        news, self._seen = self._seen != self._state.size, self._state.size
        return news

    def _is_ready(self) -> bool:
        try:
            learned = is_learned(self._state, self.stages)
        except EngineError as error:
            raise EngineError(f"stage {self._goal.stage.number}: {error}") from error
        return learned and self._opened()

    def _opened(self) -> bool:
        return all(self._state.classes.knows(name) for name in self._goal.names)

    def _runs(self, name: DeviceId, model: ModelVersion) -> bool:
        device, known = self._fleet.device(name), self._state.models.of(name)
        version = model.solved.version
        if device.busy_until > self._fleet.world.now:
            return True  # late, and nobody waits for it
        outcome = known.model_versions_seen.get(version)
        if outcome in ("failed", "rolled_back"):
            raise EngineError(f"{name}: model {version}: {outcome}: {known.model_reason}")
        return known.active_version == version and device.unanswered == 0

    def _missing(self) -> Iterator[str]:
        state, stages = self._state, self.stages
        unknown = sorted(name for name in self._goal.names if not state.classes.knows(name))
        if unknown:
            yield f"no stage was opened for {_some(unknown)}"
        if not is_closed(state, stages):
            silent = [
                name
                for name in self._goal.devices
                if not all(state.contributions.of(name).answered(number) for number in stages)
            ]
            count, has = count_of(len(silent), "device"), agree(len(silent), "has", "have")
            yield f"{count} {has} not answered: {_some(silent)}"
            return
        if state.models.newest is None:
            yield "no model was made: nobody has contributed yet"
            return
        version = state.models.newest.solved.version
        old = [n for n in self._goal.devices if state.models.of(n).active_version != version]
        yield f"model {version} does not run on {count_of(len(old), 'device')}: {_some(old)}"

    def _problems(self) -> list[str]:
        found = self._fleet.coordinator.engine.ledger.find(DeviceProblem)
        told = [(entry.device, read_entry(entry.kind, entry.body)) for entry in found]
        return [
            f"{device} says: {body.text}"
            for device, body in told[-_NAMED:]
            if isinstance(body, DeviceProblem)
        ]


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(str(name) for name in names[:_NAMED])
    return f"{listed} and {len(names) - _NAMED} more" if len(names) > _NAMED else listed
