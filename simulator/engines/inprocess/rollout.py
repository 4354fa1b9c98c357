"""Leads the fleet of a run through the rollout at its end: the operator's part, and the waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleetledger.coordinator.topics.models.commands import ImportModel
from fleetledger.coordinator.topics.rollouts.commands import PlanRollout
from fleetledger.coordinator.topics.rollouts.state import BEGUN, Rollout
from fleetledger.coordinator.topics.rounds.commands import AdaptModel
from fleetledger.schemas.tags import all_fit
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.engines.inprocess.fleet import Fleet
from fleetledger.simulator.engines.interface import Watch
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.rollouts.candidate_import import (
    import_candidate,
    material_of,
    version_of,
)
from fleetledger.simulator.rollouts.candidates import make_candidate
from fleetledger.simulator.rollouts.held_out import RolloutFleet
from fleetledger.simulator.rollouts.record import RolloutRecord
from fleetledger.simulator.rollouts.rollout_reader import ParticipatingFleet, read_rollout
from fleetledger.simulator.scenario.rollout import RolloutSettings

_COMMAND_SECONDS = 60.0
_ROUND_SECONDS = 700.0
"""Longer than a round lasts, with its deadline and the pause after it."""
_HOPE_SECONDS = 3600.0
"""Of the fleet's clock, past every deadline; what has not happened then never will."""


@dataclass(frozen=True)
class RolloutTask:
    """A fleet that has learned, and what is to go out on it."""

    fleet: Fleet
    taking_part: RolloutFleet
    home: Path
    """The coordinator's."""
    test: SampleSet
    watch: Watch

    @property
    def settings(self) -> RolloutSettings:
        """The scenario's."""
        return self.taking_part.settings


def roll_out(task: RolloutTask) -> RolloutRecord:
    """Plan and start a rollout, or go on with the one that a former process began; return its end.

    Devices that are silent are off by now. They are switched on when it is over, and get what is
    desired then. Raises `EngineError` where it comes to no end.
    """
    began = time.perf_counter()
    if not task.fleet.coordinator.state.rollouts.by_number:
        task.watch.phase("rollout: the candidate is made and imported")
        _begin(task)
    task.watch.phase("rollout: devices compare the candidate with what they run")
    _pursue(task)
    task.watch.phase("rollout: every device gets what is desired")
    _gather(task)
    coordinator, rollout = task.fleet.coordinator, _newest(task)
    entries = coordinator.engine.ledger.entries(rollout.index, coordinator.state.size)
    record = read_rollout(rollout, entries, _participating(task), task.settings.candidate.kind)
    return record.model_copy(update={"wall_seconds": time.perf_counter() - began})


def _begin(task: RolloutTask) -> None:
    if task.settings.candidate.kind == "adapted":
        _adapt(task)
        return
    fleet, coordinator, settings = task.fleet, task.fleet.coordinator, task.settings
    material = material_of(coordinator.state, coordinator.blobs.get, settings, task.test)
    candidate = make_candidate(settings.candidate, material, task.taking_part.plan.seed)
    files = import_candidate(task.home, candidate, material.manifest)
    fleet.command(ImportModel(model=files))
    version = partial(version_of, coordinator.state, files)
    _wait(task, lambda: version() is not None, _COMMAND_SECONDS, "the candidate's manifest")
    fleet.command(PlanRollout(version=version() or 0, plan=task.settings.plan, start=True))


def _adapt(task: RolloutTask) -> None:
    """Have an adapter trained on top of the last model, and wait until it begins to go out."""
    coordinator, rounds = task.fleet.coordinator, task.settings.candidate.rounds
    if coordinator.state.lineages.beneath is None:
        task.fleet.command(AdaptModel())

    def goes_out() -> bool:
        task.watch.round(len(coordinator.state.rounds.by_number), rounds)
        return bool(coordinator.state.rollouts.by_number)

    seconds = _HOPE_SECONDS + rounds * _ROUND_SECONDS
    _wait(task, goes_out, seconds, "the adapter")


def _newest(task: RolloutTask) -> Rollout:
    rollouts = task.fleet.coordinator.state.rollouts.by_number
    return rollouts[max(rollouts)]


def _pursue(task: RolloutTask) -> None:
    """Wait until the rollout ends, or is paused and waits for a person."""
    plan = task.settings.plan
    phases = 2 * len(plan.groups)
    each = 3600 * plan.deadline_hours + plan.soak_seconds + plan.settle_seconds
    seen = -1

    def done() -> bool:
        nonlocal seen
        state, rollout = task.fleet.coordinator.state, _newest(task)
        if state.size != seen and rollout.phase is not None:
            there = len(rollout.members)
            task.watch.agents(there - len(rollout.phase.waiting), there)
        seen = state.size
        if rollout.stage != "paused":
            return rollout.stage not in BEGUN
        # What one device alone made fail, others may confirm.
        return rollout.phase is None or not rollout.phase.waiting

    _wait(task, done, phases * each + _HOPE_SECONDS, "the rollout")


def _gather(task: RolloutTask) -> None:
    """Switch on who was silent, and wait until every device runs what it is to run."""
    for name in sorted(task.taking_part.silent):
        task.fleet.switch_on(name, task.fleet.device(name).jobs.delivered)
    settled = _HOPE_SECONDS + task.settings.plan.settle_seconds
    _wait(task, lambda: all(map(_runs(task), task.taking_part.devices)), settled, "peace")


def _runs(task: RolloutTask) -> Callable[[DeviceId], bool]:
    """Return whether a device runs what it is to run, or has said that it cannot."""
    fleet = task.fleet

    def runs(name: DeviceId) -> bool:
        models, device = fleet.coordinator.state.models, fleet.device(name)
        desired, known = models.desired_for(name), models.of(name)
        if desired is None or device.unanswered:
            return desired is None
        if desired.group is not None and desired.group.mode == "shadow":
            return True  # what it has is beside its own
        outcome = known.model_versions_seen.get(desired.version)
        return known.active_version == desired.version or outcome in ("failed", "rolled_back")

    return runs


def _wait(task: RolloutTask, done: Callable[[], bool], seconds: float, what: str) -> None:
    world = task.fleet.world
    limit = world.now + seconds
    world.loop.at(limit, lambda: None)
    if not world.run(done, lambda: limit):
        raise EngineError(f"{what} does not come to its end: {_awaited(task)}")


def _awaited(task: RolloutTask) -> str:
    rollouts = task.fleet.coordinator.state.rollouts.by_number
    if not rollouts:
        return "no rollout was planned"
    rollout = _newest(task)
    if rollout.phase is None:
        return f"rollout {rollout.number} is {rollout.stage}"
    waiting = ", ".join(sorted(rollout.phase.waiting)[:5]) or "nobody"
    return (
        f"rollout {rollout.number} is {rollout.stage} in group {rollout.phase.group} "
        f"({rollout.phase.mode}), and waits for {waiting}"
    )


def _participating(task: RolloutTask) -> ParticipatingFleet:
    plan, fleet = task.settings.plan, task.taking_part
    return ParticipatingFleet(fleet.devices, lambda device: all_fit(plan.tags, fleet.tags(device)))
