"""Phases: what is due in a stage of a network, and what a phase goes on from.

- A stage has its opening phases, its rounds of one or several phases each, and its closing phases,
  one after the other. Each is a round of its own, with a number, a cohort and what it gives.
- A later phase of a round goes on from the round of the phase before it. Where it comes to nothing,
  the round begins again with its first phase; any other phase is tried again itself.
- Where the method says so, a stage whose classes all lie in imported first weights has no rounds,
  nor what would come before them.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.coordinator.core.rules import RoundRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.rounds.state import Round


@dataclass(frozen=True, eq=False)
class Due:
    """The phase that comes next, and its place in the stage."""

    phase: str
    place: int
    """Counted from 1, over all phases of the stage."""
    phases: int
    """How many the stage has."""
    begins_round: bool
    """Whether it is the first phase of one of the stage's rounds."""
    follows: Round | None
    """The round of the phase before, for a later phase of a round."""


def due_phase(state: State, rules: RoundRules, stage: int) -> Due | None:
    """Return what comes next in a stage of a network; None where all phases gave something.

    The newest round is done.
    """
    network = state.lineages.trained
    counted = not (network.first_weights_suffice and _is_known(state, stage))
    opening = len(network.opening_phases) if counted else 0
    rounds = _rounds_of(rules, stage) if counted else 0
    phases = (
        *network.opening_phases[:opening],
        *network.round_phases * rounds,
        *network.closing_phases,
    )
    done = _done(state, stage)
    if done >= len(phases):
        return None
    within = done - opening
    later = 0 <= within < rounds * len(network.round_phases) and within % len(network.round_phases)
    return Due(
        phase=phases[done],
        place=done + 1,
        phases=len(phases),
        begins_round=0 <= within < rounds * len(network.round_phases) and not later,
        follows=state.rounds.current if later else None,
    )


def is_opening(state: State, current: Round) -> bool:
    """Whether a round is one of those before a stage's rounds."""
    network, opened = state.lineages.trained, current.opened
    of_rounds = opened.rounds_of_stage > len(network.closing_phases)
    return of_rounds and opened.round_of_stage <= len(network.opening_phases)


def _rounds_of(rules: RoundRules, stage: int) -> int:
    first = rules.per_first_stage
    return first if stage == 1 and first is not None else rules.per_stage


def _is_known(state: State, stage: int) -> bool:
    """Whether all classes of a stage lie in the first weights of the network."""
    resolve, network = state.classes.resolve, state.lineages.trained
    known = {resolve(name) for name in network.class_names if state.classes.knows(name)}
    return {resolve(name) for name in state.stages.by_number[stage].class_names} <= known


def _done(state: State, stage: int) -> int:
    """Return how many phases of a stage are done, without those that are to be done again."""
    current = state.rounds.current
    if current is None or current.opened.stage != stage:
        return 0
    if current.averaged:
        return current.opened.round_of_stage
    return state.rounds.first_of(current).opened.round_of_stage - 1
