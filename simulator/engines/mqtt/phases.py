"""What can be told apart from outside of the time that a stage took."""

from __future__ import annotations

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.simulator.engines.recorder import seconds_between


def phases(state: State, numbers: tuple[int, ...], total: float) -> dict[str, float]:
    """Return the seconds of each phase of stages of the ledger; they add up to their `total`."""
    opened_ns = state.stages.by_number[numbers[0]].opened_ns
    made = [model for model in state.models.all_learned if model.solved_ns >= opened_ns]
    solve = sum(model.solved.seconds for model in made)
    export = sum(_export_seconds(model) for model in made)
    fleet = max(0.0, total - solve - export)
    return {"solve": solve, "export": export, "fleet": fleet, "total": total}


def _export_seconds(model: ModelVersion) -> float:
    exported_ns = model.exported_ns
    return 0.0 if exported_ns is None else seconds_between(model.solved_ns, exported_ns)
