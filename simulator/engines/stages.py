"""Stages of the plan as the ledger knows them: by the classes that they brought, or by number."""

from __future__ import annotations

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import FleetPlan, StagePlan


def ledger_stages(state: State, plan: FleetPlan, stage: StagePlan) -> tuple[int, ...]:
    """Return the ledger's stages that brought classes of a stage; reports may open several.

    Where classes return the operator alone opens stages, in the plan's order.
    """
    if plan.repeats:
        return (stage.number,) if stage.number in state.stages.by_number else ()
    names = set(plan.names(stage.classes))
    return tuple(
        number for number, item in state.stages.by_number.items() if names & set(item.class_names)
    )


def is_closed(state: State, numbers: tuple[int, ...]) -> bool:
    """Whether all of these stages were opened and closed."""
    return bool(numbers) and all(
        state.stages.by_number[n].closed_index is not None for n in numbers
    )


def is_learned(state: State, numbers: tuple[int, ...]) -> bool:
    """Whether these stages are closed, and a model made since is the one that devices are to run.

    Raises `EngineError` when that cannot be any more.
    """
    if state.models.failed is not None:
        raise EngineError(f"no model: {state.models.failed.reason}")
    if state.rounds.void.stopped is not None:
        raise EngineError(state.rounds.void.stopped.reason)
    model, desired = state.models.newest, state.models.desired
    if not is_closed(state, numbers) or model is None or model.exported is None or desired is None:
        return False
    if state.lineages.in_rounds:  # taken right before its stage is closed
        made = model.solved_index > state.stages.by_number[numbers[0]].opened_index
    else:
        closed = closed_index(state, numbers)
        made = model.solved_index > closed or state.contributions.unchanged_since(
            model.solved.ledger_size
        )
    return made and desired.version == model.solved.version


def closed_index(state: State, numbers: tuple[int, ...]) -> int:
    """Return the index of the entry that closed the last of these stages; -1 without any."""
    closed = (state.stages.by_number[number].closed_index for number in numbers)
    return max((index for index in closed if index is not None), default=-1)


def model_of(state: State, plan: FleetPlan, stage: StagePlan) -> ModelVersion | None:
    """Return the newest model made before the next stage was opened."""
    later = [ledger_stages(state, plan, item) for item in plan.stages[stage.number :]]
    opened = [
        state.stages.by_number[number].opened_index for numbers in later for number in numbers
    ]
    end = min(opened, default=state.size)
    made = [model for model in state.models.all_learned if model.solved_index < end]
    return max(made, key=lambda model: model.solved.version, default=None)
