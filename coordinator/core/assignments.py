"""Assignments: the work that each device is asked for now, from the state alone."""

from __future__ import annotations

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import CohortOrder
from fleetledger.schemas.privacy import Privacy
from fleetledger.schemas.rounds import RoundOrder, RoundTerms
from fleetledger.schemas.values import DeviceId

_ANY_SAMPLES = 1_000_000
"""What an assignment says where nothing bounds the samples."""


def assignment_for(state: State, device: DeviceId) -> Assignment | None:
    """Return what `device` is asked to do; None before the first stage is open."""
    made = _assignment(state, action_for(state, device), _order(state, device))
    order = None if made is None else _cohort_order(state, device)
    return made if made is None or order is None else made.model_copy(update={"cohort": order})


def action_for(state: State, device: DeviceId) -> int:
    """Return the index of the last entry that changed what `device` is asked to do."""
    everybodys = max(state.lineages.changed, state.classes.changed, state.stages.changed)
    cohorts = state.cohorts.actions.get(device, 0)
    return max(everybodys, state.rounds.of(device).order_action, cohorts)


def round_assignment(state: State, asked: Round, *, observes: bool = False) -> Assignment:
    """Return what a round of the newest stage asks, or asked, of everybody in its cohort.

    Or, with `observes`, of everybody outside it.
    """
    assignment = _assignment(state, asked.opened_index, _order_of(state, asked, observes=observes))
    assert assignment is not None, "a round is opened in a stage"
    return assignment


def _assignment(state: State, action: int, order: RoundOrder | None) -> Assignment | None:
    stage, lineage = state.stages.current, state.lineages.current
    if stage is None or lineage is None:
        return None
    return Assignment(
        action=action,
        stage=stage,
        method=lineage.method,
        settings=lineage.settings,
        lineage=lineage.digest,
        frozen=lineage.frozen,
        backbone=None if lineage.backbone is None else lineage.backbone.frozen,
        base=lineage.base,
        preprocessing=lineage.preprocessing,
        class_names=state.classes.accepted_names,
        stage_class_names=state.stages.by_number[stage].class_names,
        max_samples_per_part=lineage.max_samples_per_part or _ANY_SAMPLES,
        min_samples_per_class=lineage.min_samples_per_class,
        phases=lineage.phases,
        round=order,
        requires=lineage.requires,
        privacy=_privacy(state, stage),
    )


def _privacy(state: State, stage: int) -> Privacy | None:
    """Return masks of the stage and noise of the lineage; None where there are neither."""
    masked, noise = state.stages.by_number[stage].privacy, state.lineages.noise
    if noise is None:
        return masked
    return Privacy(masks=None if masked is None else masked.masks, noise=noise)


def _cohort_order(state: State, device: DeviceId) -> CohortOrder | None:
    """Return what a cohort asks of a member, without the proof that it was formed."""
    cohort = state.cohorts.of(device)
    if cohort is None:
        return None
    shares = {}
    if cohort.step == "opening":
        given = state.contributions.masked.get(cohort.body.number, {})
        shares = {
            other: part.shares[device]
            for other, part in given.items()
            if device in part.shares and cohort.has(other)
        }
    # Who knows nothing yet of a sum tells its own share: from then on its part counts as given.
    step = cohort.step if cohort.step in ("mask", "silent") else "opening"
    return CohortOrder(cohort=cohort.body, step=step, silent=cohort.silent, shares=shares)


def _order(state: State, device: DeviceId) -> RoundOrder | None:
    """Return what a round asks of a device that has not answered it."""
    asked = state.rounds.asks(device)
    if asked is None or asked.opened.stage != state.stages.current:
        return None  # it closes with the next tick
    return _order_of(state, asked, observes=device in asked.observers)


def _order_of(state: State, asked: Round, *, observes: bool) -> RoundOrder:
    opened = asked.opened
    terms = {name: getattr(opened, name) for name in RoundTerms.model_fields}
    terms["aliases"] = state.classes.other_names(opened.class_names)
    return RoundOrder(
        **terms, class_stages=state.class_stages(opened.class_names), observes=observes
    )
