"""Rules of comparing: a candidate beside another model on the same images, told as a message.

- A desired model of mode `shadow` is fetched, verified and tested like any other, and put into the
  third slot. What runs goes on running, and the way back stays.
- It is compared with the active model there. Where a rollout has a device switch without that, the
  new active model is compared with the former one.
- The same two are compared once in a rollout, over restarts: what is to be compared is forgotten
  in the transaction that writes the message.
- A comparison is done a piece at a time, so that whatever is newer comes in between, and ends it.
- The candidate leaves the third slot when something else is desired, when it is switched to, or
  when it does not answer.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable, Put, action_ended
from fleetledger.device_agent.core.decision import NOTHING_TO_DO, AgentDecision, ask, change
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import Line
from fleetledger.device_agent.core.records import (
    ActiveModel,
    OutboxKey,
    OutboxMessage,
    PendingComparison,
)
from fleetledger.device_agent.core.requests import Compare, ForgetCandidate
from fleetledger.device_agent.core.state import AgentRecords, AgentState
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.rollouts import Mode, ModelComparison


def wanted(
    records: AgentRecords,
    action: DesiredModel | None,
    mode: Mode,
    candidate: ActiveModel,
    beside: ActiveModel | None,
) -> tuple[Durable, ...]:
    """Return that two models are to be compared, where a rollout asks for it and they were not."""
    if action is None or beside is None or action.rollout is None or action.group is None:
        return ()
    pending = PendingComparison(action.rollout, action.group, mode, candidate, beside)
    return () if pending.pair == records.compared else (Put(comparing=pending),)


def candidate_kept(state: AgentState, event: inputs.CandidateKept, _now: float) -> AgentDecision:
    """Say that a candidate stands beside the active model, and compare the two."""
    beside, action = state.models.active, state.models.installing
    status = ModelStatus(
        version=event.candidate.version,
        manifest=event.candidate.manifest,
        state="shadowing",
        previous_version=beside.version if beside is not None else None,
    )
    newest = action is not None and action == state.records.desired
    asked = wanted(state.records, action, "shadow", event.candidate, beside) if newest else ()
    return change(
        replace(state.models, installing=None, candidate=event.candidate),
        action_ended(event.action, status),
        *asked,
        replace(state.told, status=False),
        replace(state.files, littered=True),
    )


def candidate_due(state: AgentState, _now: float) -> AgentDecision:
    """Let a candidate go that is not wanted any more."""
    models = state.models
    if models.candidate is None or models.installing is not None:
        return NOTHING_TO_DO
    if _is_wanted(state.records, models.candidate):
        return NOTHING_TO_DO
    return change(replace(models, candidate=None)) + ask(ForgetCandidate())


def _is_wanted(records: AgentRecords, candidate: ActiveModel) -> bool:
    desired = records.desired
    if desired is None or desired.manifest.digest != candidate.manifest:
        return False
    return desired.mode == "shadow" or desired.action != records.acted


def candidate_forgotten(
    state: AgentState, _event: inputs.CandidateForgotten, _now: float
) -> AgentDecision:
    """Remove its files, too."""
    return change(replace(state.files, littered=True))


def comparison_due(state: AgentState, _now: float) -> AgentDecision:
    """Compare what is to be compared, a piece at a time, when no model is being put in place."""
    pending, models = state.records.comparing, state.models
    if pending is None or models.comparing or models.installing is not None:
        return NOTHING_TO_DO
    if models.evaluating or models.evaluate:
        return NOTHING_TO_DO
    where = models.candidate if pending.mode == "shadow" else models.active
    if models.active is None or where != pending.candidate:
        return change(Put(comparing=None))
    if pending.mode == "shadow" and pending.beside != models.active:
        return change(Put(comparing=replace(pending, beside=models.active)))
    asked = Compare(pending, frozenset(state.scanning.waiting))
    return change(replace(models, comparing=True)) + ask(asked)


def goes_on(state: AgentState, _event: inputs.ComparisonGoesOn, _now: float) -> AgentDecision:
    """Let what is newer come first, then go on."""
    return change(replace(state.models, comparing=False))


def compared(state: AgentState, event: inputs.Compared, _now: float) -> AgentDecision:
    """Write what is to be told."""
    ended = replace(state.models, comparing=False)
    if not _still_so(state, event.pending):
        return change(ended)
    return change(ended, comparison_written(event.pending, event.comparison))


def comparison_written(pending: PendingComparison, comparison: ModelComparison) -> Durable:
    """Send what came of a comparison, under the next number, and note that it is done."""

    def write(draft: Draft) -> None:
        body = comparison.model_copy(update={"number": draft.comparisons})
        draft.comparisons += 1
        draft.comparing, draft.compared = None, pending.pair
        draft.post(OutboxKey("comparison", body.key), OutboxMessage(0, body))

    pairs = comparison.classes.values()
    fields = {
        "version": comparison.candidate_version,
        "rollout": comparison.rollout,
        "group": comparison.group,
        "beside": comparison.active_version,
        "images": sum(pair.images for pair in pairs),
        "only_active": sum(pair.only_active for pair in pairs),
        "only_candidate": sum(pair.only_candidate for pair in pairs),
    }
    text = (
        f"compared model {fields['version']} with model {fields['beside']} on {fields['images']} "
        f"held-out samples, of which {fields['only_active']} only the latter had right, "
        f"{fields['only_candidate']} only the former, and on "
        f"{count_of(comparison.unlabelled, 'other')}"
    )
    return Durable(write, Line("model.compared", text, fields))


def failed(state: AgentState, event: inputs.ComparisonFailed, _now: float) -> AgentDecision:
    """Report a candidate that passed its test and does not answer all the same."""
    ended = replace(state.models, comparing=False)
    if not _still_so(state, event.pending):
        return change(ended)
    candidate = event.pending.candidate
    status = ModelStatus(
        version=candidate.version,
        manifest=candidate.manifest,
        state="failed",
        reason=event.reason[:500],
    )
    told = replace(state.told, status=False)
    decision = change(Put(comparing=None, settling=None), action_ended(None, status), told)
    if event.pending.mode == "run":
        return decision + change(ended)
    return decision + change(replace(ended, candidate=None)) + ask(ForgetCandidate())


def _still_so(state: AgentState, pending: PendingComparison) -> bool:
    """Whether what was compared is what is to be compared, and the device still has it so."""
    runs = pending.beside if pending.mode == "shadow" else pending.candidate
    return state.records.comparing == pending and state.models.active == runs
