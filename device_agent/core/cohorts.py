"""Rules of masked cohorts: numbers leave this device behind masks that vanish in a sum of many.

What was computed waits until the device has joined for a cohort, was named in one and has checked
it. Then it gives its words behind masks; tells the seeds that it had in common with members that
are silent; and, once nobody is missing, its shares of the masks of those present. From then on the
part counts as given, whatever becomes of the cohort: the same numbers in another one could be told
apart by their difference.

A device that is silent to the others, or whose cohort ended before it opened, finds no order for it
any more, and joins anew with another key. It never tells both a seed and a share for one member,
nor a seed once it told shares. What it told is written down before it is sent, and its secrets
follow from the secret of the installation, so that it goes on after a kill at any point.

A part of which images were relabelled is given as the new part less the old one.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable
from fleetledger.device_agent.core.cohort_checks import (
    CohortTrust,
    own_member,
    roster_fault,
    step_fault,
)
from fleetledger.device_agent.core.decision import (
    NOTHING_TO_DO,
    AgentDecision,
    Waits,
    ask,
    change,
    tried,
)
from fleetledger.device_agent.core.draft import Draft, Refusal
from fleetledger.device_agent.core.log_words import Line, of_part, warning
from fleetledger.device_agent.core.notices import problem, recovered, report_happened
from fleetledger.device_agent.core.records import (
    SEEDS,
    SHARES,
    CohortJob,
    CohortWork,
    GivenPart,
    HiddenPart,
    Masking,
    OutboxKey,
    OutboxMessage,
    PartState,
    ReadyPart,
)
from fleetledger.device_agent.core.requests import WorkForCohort
from fleetledger.device_agent.core.state import AgentState
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import CohortJoin, CohortOrder
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.reports import Problem


def cohort_due(state: AgentState, now: float) -> AgentDecision:
    """Do the next thing of what is to be given behind masks."""
    assignment, masking = state.records.assignment, state.records.masking
    if assignment is None or state.cohorts.job is not None or now < state.cohorts.retry.due:
        return NOTHING_TO_DO
    if masking is None:
        return _drop_late_answers(state, assignment) or _prepare(state, assignment)
    order = _order_of(assignment, masking)
    if order is not None:
        return _carry_on(state, assignment, masking, order)
    if masking.number is None:
        return _wait(state, assignment, masking)
    if assignment.action <= masking.action:
        return NOTHING_TO_DO
    return change(cohort_left(masking), replace(state.files, littered=True))


def _order_of(assignment: Assignment, masking: Masking) -> CohortOrder | None:
    """Return what the cohort asks that has this device by what it joined with."""
    order = assignment.cohort
    return None if order is None or own_member(order, masking) is None else order


def trust_in(state: AgentState) -> CohortTrust:
    """Return what the owner asks of a cohort."""
    rules, pinned = state.rules, state.rules.pinned
    root = None if pinned is None else state.records.root or pinned.root
    return CohortTrust(
        rules.privacy.least_cohort,
        None if rules.trust is None else rules.trust.coordinator_key,
        state.records.seen,
        None if root is None else root.document.devices,
    )


def _prepare(state: AgentState, assignment: Assignment) -> AgentDecision:
    """Have the device's word made that it has something ready."""
    found = _next_ready(state, assignment)
    if found is None:
        return NOTHING_TO_DO
    key, part = found
    job = CohortJob("join", key, state.records.joins + 1)
    undone = state.records.hidden.get(key)
    work = WorkForCohort(job, assignment, part, undone, None, trust_in(state))
    return change(replace(state.cohorts, job=job)) + ask(work)


def _next_ready(state: AgentState, assignment: Assignment) -> tuple[PartKey, ReadyPart] | None:
    """Return what is given next: an answer to a round, else the oldest part."""
    here, ready = state.files.here, []
    for key, part in state.records.ready.items():
        undone = state.records.hidden.get(key)
        needed = {part.payload, None if undone is None else undone.payload} - {None}
        if needed <= here and _is_wanted(assignment, key, part):
            ready.append((key, part))
    return min(
        ready, default=None, key=lambda item: (not item[1].round, item[0].stage, item[0].part)
    )


def _is_wanted(assignment: Assignment, key: PartKey, part: ReadyPart) -> bool:
    """Whether something may be given now: of this network, and to a round that waits for it."""
    if part.lineage != assignment.lineage or key.stage > assignment.stage:
        return False
    asked = None if assignment.round is None else assignment.round.number
    return part.round is None or part.round == asked


def _drop_late_answers(state: AgentState, assignment: Assignment) -> AgentDecision:
    """Forget answers to rounds that are over."""
    late = [
        key
        for key, part in state.records.ready.items()
        if part.round is not None and not _is_wanted(assignment, key, part)
    ]
    if not late:
        return NOTHING_TO_DO

    def write(draft: Draft) -> None:
        for key in late:
            del draft.ready[key]

    return change(Durable(write), replace(state.files, littered=True))


def join_prepared(state: AgentState, event: inputs.JoinPrepared, _now: float) -> AgentDecision:
    """Say that something is ready, and with which key it will be masked."""
    job = event.job
    if job != state.cohorts.job:
        return NOTHING_TO_DO
    decision = _job_ended(state)
    part = state.records.ready.get(job.key)
    if part is None or part != event.part:
        return decision
    undone = state.records.hidden.get(job.key)
    masking = Masking(job.key, part, undone, job.serial, event.joining)
    return decision + change(_joined(masking))


def _joined(masking: Masking) -> Durable:
    body = CohortJoin(joining=masking.joining)

    def write(draft: Draft) -> None:
        draft.joins, draft.masking = masking.serial, masking
        draft.post(OutboxKey("cohort-join", masking.key), OutboxMessage(0, body))

    again = "" if masking.undone is None else f", less what is in cohort {masking.undone.cohort}"
    text = f"waits to give {_what(masking)} behind masks{again}"
    return Durable(write, Line("masks.waiting", text, of_part(masking.key)))


def _what(masking: Masking) -> str:
    if masking.part.round is not None:
        return f"its answer to round {masking.part.round}"
    return f"part {masking.key.part} of stage {masking.key.stage}"


def join_again(state: AgentState) -> AgentDecision:
    """Say once more that something is ready: a coordinator may have forgotten it."""
    masking = state.records.masking
    if masking is None or masking.number is not None:
        return NOTHING_TO_DO
    key, body = OutboxKey("cohort-join", masking.key), CohortJoin(joining=masking.joining)
    if key in state.records.outbox:
        return NOTHING_TO_DO
    return change(Durable(lambda draft: draft.post(key, OutboxMessage(0, body))))


def _wait(state: AgentState, assignment: Assignment, masking: Masking) -> AgentDecision:
    """Wait for a cohort; take the word back where there is something else to give, or nothing.

    With each further assignment the word is said again: a cohort that had this device may be over,
    without it, while it was away.
    """
    same = state.records.ready.get(masking.key) == masking.part
    if not same or not _is_wanted(assignment, masking.key, masking.part):
        return change(cohort_left(masking))
    if masking.action >= assignment.action:
        return NOTHING_TO_DO
    return change(_noted(replace(masking, action=assignment.action))) + join_again(state)


def cohort_left(masking: Masking) -> Durable:
    """Have done with a cohort in which this device told no shares; it may join another one."""

    def write(draft: Draft) -> None:
        draft.masking = None
        draft.take_out(OutboxKey("cohort-join", masking.key))
        given = draft.outbox.get(OutboxKey("contribution", masking.key))
        if given is not None and getattr(given.body, "cohort", None) is not None:
            draft.take_out(OutboxKey("contribution", masking.key))
        if masking.number is not None:
            draft.take_out(OutboxKey("cohort-reveal", PartKey(stage=SEEDS, part=masking.number)))

    if masking.number is None:
        return Durable(write)
    text = (
        f"cohort {masking.number} ended, or went on, without {_what(masking)}, which no sum holds; "
        "it is given in another one"
    )
    fields = of_part(masking.key, cohort=masking.number)
    return Durable(write, Line("masks.again", text, fields, logging.WARNING))


def _carry_on(
    state: AgentState, assignment: Assignment, masking: Masking, order: CohortOrder
) -> AgentDecision:
    """Do what a step of the cohort asks of this device."""
    mine = own_member(order, masking)
    if mine is not None and mine.device in order.silent:
        return change(cohort_left(masking), replace(state.files, littered=True))
    number, known = order.cohort.number, masking.cohort in (None, order.cohort.name)
    if masking.action < assignment.action and known:
        fault = masking.fault if masking.number == number else ""
        return change(
            _noted(replace(masking, number=number, action=assignment.action, fault=fault))
        )
    if masking.cohort is None:
        return _give(state, assignment, masking, order)
    if fault := step_fault(order, masking):
        return _doubt(state, fault)
    if order.step == "silent":
        return _tell(state, assignment, masking, order, "seeds")
    if order.step == "opening":
        return _tell(state, assignment, masking, order, "shares")
    return NOTHING_TO_DO


def _noted(masking: Masking) -> Durable:
    return Durable(lambda draft: setattr(draft, "masking", masking))


def _doubt(state: AgentState, fault: str) -> AgentDecision:
    """Tell the owner once of an order that is not obeyed."""
    found = problem("cohort", fault)
    if found.text in state.told.problems:
        return NOTHING_TO_DO
    told = report_happened(state.told, [found], state.rules)
    return NOTHING_TO_DO if told == state.told else change(told)


def _give(
    state: AgentState, assignment: Assignment, masking: Masking, order: CohortOrder
) -> AgentDecision:
    """Have the cohort checked and the words masked; later than at the first step there are none."""
    if masking.fault or order.step != "mask":
        return NOTHING_TO_DO
    trust = trust_in(state)
    if fault := roster_fault(order, trust):
        told = report_happened(state.told, [_why(masking, fault)], state.rules)
        return change(_faulted(masking, fault), told)
    if trust.roster is not None and trust.roster not in state.files.here:
        return NOTHING_TO_DO  # it is fetched
    return _work(state, assignment, masking, CohortJob("mask", masking.key, masking.serial))


def _work(
    state: AgentState, assignment: Assignment, masking: Masking, job: CohortJob
) -> AgentDecision:
    work = WorkForCohort(job, assignment, masking.part, masking.undone, masking, trust_in(state))
    return change(replace(state.cohorts, job=job)) + ask(work)


def cohort_refused(state: AgentState, event: inputs.CohortRefused, _now: float) -> AgentDecision:
    """Give nothing to a cohort that is not what it must be, and say why."""
    masking = state.records.masking
    if event.job != state.cohorts.job:
        return NOTHING_TO_DO
    if masking is None or masking.serial != event.job.serial:
        return _job_ended(state)
    ended = _job_ended(state, _why(masking, event.reason))
    return ended + change(_faulted(masking, event.reason))


def _why(masking: Masking, reason: str) -> Problem:
    text = f"cohort {masking.number}: {reason}; this device gives nothing in it"
    return problem("cohort", text)


def _faulted(masking: Masking, reason: str) -> Durable:
    fields = of_part(masking.key, cohort=masking.number, reason=reason)
    return Durable(
        lambda draft: setattr(draft, "masking", replace(masking, fault=reason)),
        warning("masks.refused", _why(masking, reason).text, **fields),
    )


def part_masked(state: AgentState, event: inputs.PartMasked, _now: float) -> AgentDecision:
    """Write words and shares down before anything is sent; they are made once for a cohort."""
    masking = state.records.masking
    if event.job != state.cohorts.job:
        return NOTHING_TO_DO
    decision = _job_ended(state)
    if masking is None or masking.serial != event.job.serial or masking.cohort is not None:
        return decision
    files, body = state.files, event.contribution
    if body.offer is not None:
        files = replace(files, here=files.here | {body.payload})
    given = replace(masking, cohort=event.cohort, share=event.share)

    def write(draft: Draft) -> None:
        draft.masking = given
        draft.take_out(OutboxKey("cohort-join", masking.key))
        key = OutboxKey("contribution", masking.key)
        draft.post(key, OutboxMessage(body.revision, body), event.attached)

    assert body.cohort is not None
    members = 1 + len(body.cohort.shares)
    text = (
        f"gives {_what(masking)} behind masks, with {count_of(members - 1, 'other device')} "
        f"(cohort {body.cohort.number}, "
        f"{count_of(body.payload_bytes, 'byte')})"
    )
    fields = of_part(masking.key, cohort=body.cohort.number, members=members)
    return decision + change(files, Durable(write, Line("masks.given", text, fields)))


def _tell(
    state: AgentState, assignment: Assignment, masking: Masking, order: CohortOrder, step: str
) -> AgentDecision:
    """Have told what a step asks for, once, one message after the other."""
    silent = order.silent
    if step == "seeds":
        if {*silent} <= {*masking.silent} or _is_told(state, order, SEEDS):
            return NOTHING_TO_DO
        job = CohortJob("seeds", masking.key, masking.serial, silent)
    else:
        job = CohortJob("shares", masking.key, masking.serial, silent)
    return _work(state, assignment, masking, job)


def _is_told(state: AgentState, order: CohortOrder, what: int) -> bool:
    """Whether something of this kind is on its way."""
    key = OutboxKey("cohort-reveal", PartKey(stage=what, part=order.cohort.number))
    return key in state.records.outbox


def masks_told(state: AgentState, event: inputs.MasksTold, _now: float) -> AgentDecision:
    """Write down what is told of others before it is sent; with shares the part is given."""
    job, body, masking = event.job, event.reveal, state.records.masking
    if job != state.cohorts.job:
        return NOTHING_TO_DO
    decision = _job_ended(state, *([problem("cohort", event.trouble)] if event.trouble else ()))
    if masking is None or masking.serial != job.serial or {*masking.silent} - {*job.silent}:
        return decision
    what = SEEDS if body.seeds else SHARES
    key = OutboxKey("cohort-reveal", PartKey(stage=what, part=body.number))
    if body.seeds:
        told_of = replace(masking, silent=job.silent)

        def write(draft: Draft) -> None:
            draft.masking = told_of
            draft.post(key, OutboxMessage(0, body))

        seeds = count_of(len(body.seeds), "device")
        text = f"cohort {body.number} goes on without {seeds}; tells what it had with them"
        line = Line("masks.told", text, of_part(masking.key, cohort=body.number))
        return decision + change(Durable(write, line))
    files, work = replace(state.files, littered=True), replace(state.work, settled=False)
    told_shares = _given(masking, key, OutboxMessage(0, body), event.members)
    return decision + change(told_shares, files, work)


def _given(masking: Masking, key: OutboxKey, message: OutboxMessage, members: int) -> Durable:
    """Count a part as given, in the same transaction as the shares that open its cohort."""

    def write(draft: Draft) -> None:
        draft.masking = None
        draft.post(key, message)
        part = masking.part
        if draft.ready.get(masking.key) == part:
            del draft.ready[masking.key]
        if part.round is not None:
            return
        draft.hidden[masking.key] = HiddenPart(key.key.part, part.payload, part.lineage, members)
        known = draft.parts.get(masking.key)
        if known is not None and known.revision == part.revision:
            state: PartState = "withdrawn" if part.payload is None else "accepted"
            draft.parts[masking.key] = replace(known, state=state)

    text = (
        f"{_what(masking)} is in the sum of cohort {key.key.part}, of "
        f"{count_of(members, 'device')}, which is opened"
    )
    fields = of_part(masking.key, cohort=key.key.part, members=members)
    return Durable(write, Line("masks.opened", text, fields))


def describe_masks(state: AgentState) -> str:
    """Say what is given behind masks, and to how many; empty where nothing is."""
    records = state.records
    masking, assignment = records.masking, records.assignment
    said = []
    if masking is not None:
        order = None if assignment is None else _order_of(assignment, masking)
        if masking.fault:
            said.append(f"nothing is given in cohort {masking.number}: {masking.fault}")
        elif order is None:
            said.append(f"{_what(masking)} waits for a cohort")
        else:
            others = count_of(len(order.cohort.members) - 1, "other device")
            verb = "waits to be given" if masking.cohort is None else "is given"
            said.append(f"{_what(masking)} {verb} with {others}, in cohort {order.cohort.number}")
    waiting = len(records.ready.keys() - ({masking.key} if masking is not None else set()))
    if waiting:
        said.append(f"{count_of(waiting, 'further part')} {agree(waiting, 'waits', 'wait')}")
    if records.hidden:
        parts, least = len(records.hidden), min(part.members for part in records.hidden.values())
        said.append(
            f"{count_of(parts, 'part')} {agree(parts, 'is', 'are')} in sums of at least "
            f"{count_of(least, 'device')}"
        )
    if said and trust_in(state).roster is None:
        said.append("that they are devices is the coordinator's word, since no root names them")
    return "; ".join(said)


def cohort_job_failed(
    state: AgentState, event: inputs.CohortJobFailed, now: float
) -> AgentDecision:
    """Try again later what could not be done."""
    if event.job != state.cohorts.job:
        return NOTHING_TO_DO
    waits = Waits(state.rules.retry_shortest, state.rules.retry_longest)
    retry = tried(state.cohorts.retry, now, waits, state.identity.boot, "cohort")
    told = report_happened(state.told, [problem("cohort", event.reason)], state.rules)
    return change(CohortWork(retry=retry, trouble=event.reason), told)


def _job_ended(state: AgentState, *problems: Problem) -> AgentDecision:
    told = recovered(state.told, [state.cohorts.trouble])
    return change(CohortWork(), report_happened(told, problems, state.rules))


def words_refused(state: AgentState, key: OutboxKey, reason: str) -> AgentDecision:
    """Join anew where the coordinator does not take words, as it may be too late for them."""
    masking = state.records.masking
    if masking is None or masking.key != key.key:
        return change(Durable(lambda draft: draft.take_out(key)))
    told = report_happened(
        state.told, [problem("cohort", f"{key.words}: refused: {reason}")], state.rules
    )
    return change(cohort_left(masking), told)


def join_refused(state: AgentState, key: OutboxKey, reason: str) -> AgentDecision:
    """Give a part as a whole where what it would take out is in no sum; else give it up."""
    masking = state.records.masking
    if masking is None or masking.key != key.key:
        return change(Durable(lambda draft: draft.take_out(key)))
    undone, whole = masking.undone, masking.part.payload is not None

    def write(draft: Draft) -> None:
        refused = draft.outbox[key]
        cohort_left(masking).write(draft)
        if undone is not None:
            draft.hidden.pop(masking.key, None)
            if whole:
                return
        draft.ready.pop(masking.key, None)
        if masking.part.round is None and masking.key in draft.parts:
            known: GivenPart = draft.parts[masking.key]
            draft.parts[masking.key] = replace(known, state="refused" if whole else "withdrawn")
        if whole and masking.part.round is None:  # rounds that are over wait for nobody
            draft.refuse(Refusal(key, refused.revision, refused.body, reason))

    text = f"{key.words} is refused: {reason}"
    told = report_happened(state.told, [problem("cohort", text)], state.rules)
    line = warning("contribution.refused", text, **{**key.fields, "reason": reason})
    return change(Durable(write, line), told, replace(state.work, settled=False))
