"""What each device is asked to do now: an assignment, made from the state alone."""

from __future__ import annotations

from coordinator.core.entries import BackboneImported, RoundOpened
from coordinator.core.state import State
from schemas.assignments import Assignment
from schemas.rounds import PhaseName, RoundOrder
from schemas.values import ClassName, DeviceId

_ANY_SAMPLES = 1_000_000
"""Networks see their images in batches, so nothing bounds them but the schema."""


def assignment_for(state: State, device: DeviceId) -> Assignment | None:
    """Return what `device` is asked to do; None before the first stage is open."""
    return _assignment(state, state.action_for(device), _order(state, device))


def round_assignment(state: State, opened: RoundOpened, *, observes: bool = False) -> Assignment:
    """Return what a round of the newest stage asks, or asked, of everybody in its cohort.

    Or, with `observes`, of everybody outside it.
    """
    action = state.rounds[opened.number].opened_index
    assignment = _assignment(state, action, _order_of(state, opened, observes=observes))
    assert assignment is not None, "a round is opened in a stage"
    return assignment


def _assignment(state: State, action: int, order: RoundOrder | None) -> Assignment | None:
    stage, lineage = state.current_stage, state.lineage
    if stage is None or lineage is None:
        return None
    frozen, backbone, base, most, least = None, None, None, _ANY_SAMPLES, 1
    phases: tuple[PhaseName, ...] = ()
    if isinstance(lineage, BackboneImported):
        frozen = lineage.frozen
        most, least = lineage.max_samples_per_part, lineage.min_samples_per_class
    else:
        base, phases = lineage.base, lineage.phases
        backbone = None if lineage.backbone is None else lineage.backbone.frozen
    return Assignment(
        action=action,
        stage=stage,
        method=lineage.method,
        settings=lineage.settings,
        lineage=lineage.digest,
        frozen=frozen,
        backbone=backbone,
        base=base,
        preprocessing=lineage.preprocessing,
        class_names=state.classes.accepted_names,
        stage_class_names=state.stages[stage].class_names,
        max_samples_per_part=most,
        min_samples_per_class=least,
        phases=phases,
        round=order,
    )


def _order(state: State, device: DeviceId) -> RoundOrder | None:
    """Return what the open round asks of a device that has not answered it."""
    current = state.current_round
    if current is None or current.closed is not None:
        return None
    opened = current.opened
    if opened.stage != state.current_stage:
        return None  # it closes with the next tick
    observes = device in current.observers
    if not (observes or device in current.cohort):
        return None
    if opened.number in state.devices[device].answers:
        return None
    return _order_of(state, opened, observes=observes)


def _order_of(state: State, opened: RoundOpened, *, observes: bool) -> RoundOrder:
    return RoundOrder(
        number=opened.number,
        phase=opened.phase,
        follows=opened.follows,
        round_of_stage=opened.round_of_stage,
        rounds_of_stage=opened.rounds_of_stage,
        weights=opened.weights,
        weights_class_names=opened.weights_class_names,
        class_names=opened.class_names,
        class_stages=_class_stages(state, opened.class_names),
        observes=observes,
        aliases=state.classes.other_names(opened.class_names),
        extras=opened.extras,
        seed=opened.seed,
        deadline_seconds=opened.deadline_seconds,
    )


def _class_stages(state: State, rows: tuple[ClassName, ...]) -> tuple[int, ...]:
    """Return the stage that brought each row; of names for one class, the earliest counts."""
    first: dict[ClassName, int] = {}
    for number in sorted(state.stages):
        for name in state.stages[number].class_names:
            first.setdefault(state.classes.resolve(name), number)
    return tuple(first[state.classes.resolve(row)] for row in rows)
