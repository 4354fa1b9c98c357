"""Rules of training: an order of a round is carried out once, and answered once.

The worker trains, so nothing else waits for it but other work. When it has ended, the answer is
written with what the method remembers, in one transaction, before it is sent. A result whose order
is over by then is dropped: the round was closed without it. What cannot be done is tried a few
times; then the device says why, so that the round need not wait for it. An order to look at the
images alone is an order like any other, with another answer.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable
from fleetledger.device_agent.core.counting import images_unusable
from fleetledger.device_agent.core.decision import (
    NOTHING_TO_DO,
    AgentDecision,
    Waits,
    ask,
    change,
    tried,
)
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.gradients import gradients_written
from fleetledger.device_agent.core.log_words import Line, because, contribution_line
from fleetledger.device_agent.core.notices import problem, report_happened, report_problems
from fleetledger.device_agent.core.policy import (
    asks_masks,
    declines,
    publishes_gradients,
    withheld,
)
from fleetledger.device_agent.core.records import (
    ImageToCount,
    NoveltyCheck,
    OutboxKey,
    OutboxMessage,
    ReadyPart,
    Sighting,
    Training,
    TrainingJob,
)
from fleetledger.device_agent.core.requests import Train
from fleetledger.device_agent.core.standing_problems import left_out, sample_text
from fleetledger.device_agent.core.state import AgentState
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution, Nothing, PartKey
from fleetledger.schemas.rounds import RoundOrder
from fleetledger.schemas.values import Digest

MOST_TRIES = 3
"""Times that one order is tried, before the device says that it cannot carry it out."""


def training_due(state: AgentState, now: float) -> AgentDecision:
    """Begin what an order asks for, when everything that it needs is here."""
    assignment, training = state.records.assignment, state.training
    if training.job is not None or now < training.retry.due or assignment is None:
        return NOTHING_TO_DO
    lost = _lost_answer(state)
    if lost is not None:
        return change(answer_lost(lost))
    order = assignment.round
    if order is None or order.number in state.records.answered:
        return NOTHING_TO_DO
    refused = declines(state.rules, assignment, order.phase)
    if refused:
        return change(round_declined(assignment.stage, order.number, refused))
    if not _is_ready(state, assignment):
        return NOTHING_TO_DO
    images = images_asked(state.scanning.images, order, unusable=left_out(state))
    if not images and not _remembers(state, assignment, order):
        return change(round_declined(assignment.stage, order.number, _lacking(order)))
    job = _job(assignment, order)
    publishes = publishes_gradients(state.rules, assignment.method) and not job.masked
    work = Train(job, assignment, images, _memory(state, assignment), publishes)
    return (
        change(Training(job, training.retry, training.trouble))
        + _tell_withheld(state, job)
        + ask(work)
    )


def answer_lost(key: PartKey) -> Durable:
    """Open a round again whose answer's file is gone before it was fetched."""

    def write(draft: Draft) -> None:
        draft.answered.discard(key.part)
        draft.ready.pop(key, None)
        draft.take_out(OutboxKey("contribution", key))

    return Durable(write)


def round_declined(stage: int, number: int, reason: str = "") -> Durable:
    """Say that the device gives nothing for a round.

    `reason` is why it could not; empty where it has no data.
    """

    def write(draft: Draft) -> None:
        draft.answered.add(number)
        key = OutboxKey("nothing", PartKey(stage=stage, part=number))
        draft.post(key, OutboxMessage(0, Nothing(stage=stage, round=number, reason=reason)))

    text = f"nothing for round {number}{because(reason)}"
    fields = {"stage": stage, "round": number, "reason": reason}
    level = logging.WARNING if reason else logging.INFO
    return Durable(write, Line("round.nothing", text, fields, level))


def _tell_withheld(state: AgentState, job: TrainingJob) -> AgentDecision:
    """Say once that the proxy gets nothing from this device, and why."""
    kept = withheld(state.rules, job.method)
    if not kept or job.observes:
        return NOTHING_TO_DO
    return change(report_happened(state.told, [problem("policy", kept)], state.rules))


def trained(state: AgentState, event: inputs.TrainingFinished, _now: float) -> AgentDecision:
    """Write answer and memory together, before anything is sent."""
    if event.job != state.training.job:
        return NOTHING_TO_DO
    decision = _job_ended(state, event.unusable)
    if not _is_asked(state, event.job):
        return decision
    files = state.files
    here = replace(files, here=files.here | _files_of(event), littered=True)
    if event.job.masked:
        return decision + change(here, answer_ready(event))
    return decision + change(here, answer_written(event)) + gradients_written(event)


def answer_ready(event: inputs.TrainingFinished) -> Durable:
    """Write memory and an answer to a round, which waits to be given behind masks."""
    body, answer = event.contribution, event.answer

    def write(draft: Draft) -> None:
        _remember(draft, event)
        draft.ready[body.key] = ReadyPart(
            body.revision,
            body.method,
            body.lineage,
            body.payload,
            sum(body.samples.values()),
            answer.number,
            answer.phase,
        )

    return Durable(write, contribution_line("contribution.made", "made", body))


def _remember(draft: Draft, event: inputs.TrainingFinished) -> None:
    body, answer = event.contribution, event.answer
    draft.answered.add(body.key.part)
    draft.memory, draft.exemplars = event.memory, answer.stored_samples
    draft.memory_lineage = body.lineage
    if answer.observation is not None:
        draft.look = NoveltyCheck(answer.number, answer.observation)


def answer_written(event: inputs.TrainingFinished) -> Durable:
    """Write message and memory of an answer to a round."""
    body = event.contribution

    def write(draft: Draft) -> None:
        _remember(draft, event)
        key = OutboxKey("contribution", body.key)
        draft.post(key, OutboxMessage(body.revision, body), event.attached)

    return Durable(write, contribution_line("contribution.made", "made", body))


def _files_of(event: inputs.TrainingFinished) -> set[Digest]:
    """Return the files that the worker has put on the disk."""
    given = event.contribution
    files = {given.payload} if given.offer is not None else set()
    if event.memory is not None:
        files.add(event.memory)
    if event.gradients is not None and event.gradients.offer is not None:
        files.add(event.gradients.payload)
    return files


def observed(state: AgentState, event: inputs.NoveltyChecked, _now: float) -> AgentDecision:
    """Write what was seen and what is remembered together, before anything is sent."""
    if event.job != state.training.job:
        return NOTHING_TO_DO
    decision = _job_ended(state, event.unusable)
    if not _is_asked(state, event.job):
        return decision
    new = {event.memory} if event.memory is not None else set()
    here = replace(state.files, here=state.files.here | new, littered=True)
    return decision + change(here, observation_written(event))


def observation_written(event: inputs.NoveltyChecked) -> Durable:
    """Write answer and memory of a look at the images."""

    def write(draft: Draft) -> None:
        key = event.job.key
        draft.answered.add(key.part)
        draft.memory, draft.memory_lineage = event.memory, event.job.lineage
        draft.look = NoveltyCheck(key.part, event.observation)
        body = Nothing(stage=key.stage, round=key.part, observation=event.observation)
        draft.post(OutboxKey("nothing", key), OutboxMessage(0, body))

    return Durable(write)


def nothing_to_train(state: AgentState, event: inputs.NothingToTrain, _now: float) -> AgentDecision:
    """Say that there is no data, so that the round need not wait."""
    if event.job != state.training.job:
        return NOTHING_TO_DO
    decision = _job_ended(state, event.unusable)
    assignment = state.records.assignment
    if not _is_asked(state, event.job) or assignment is None or assignment.round is None:
        return decision
    declined = round_declined(event.job.key.stage, event.job.key.part, _lacking(assignment.round))
    return decision + change(declined)


def _lacking(order: RoundOrder) -> str:
    """Return why there is nothing for a later phase; empty where a device has no data."""
    if order.follows is None:
        return ""
    return f"memory: nothing of round {order.follows} is left here to go on from"


def training_failed(state: AgentState, event: inputs.TrainingFailed, now: float) -> AgentDecision:
    """Try again later; after some tries, or where it is hopeless, say why there is no answer."""
    if event.job != state.training.job:
        return NOTHING_TO_DO
    key = event.job.key
    text = f"round {key.part}: {event.reason}"
    failed = [problem("training", text)]
    happened = report_happened(state.told, failed, state.rules)
    if not _is_asked(state, event.job):
        return change(Training(), happened)
    waits = Waits(state.rules.retry_shortest, state.rules.retry_longest)
    retry = tried(state.training.retry, now, waits, state.identity.boot, "training")
    if event.hopeless or retry.count >= MOST_TRIES:
        declined = round_declined(key.stage, key.part, event.reason[:500])
        return change(Training(), happened, declined)
    told = report_problems(state.told, failed, state.rules)
    return change(Training(retry=retry, trouble=text), told)


def _remembers(state: AgentState, assignment: Assignment, order: RoundOrder) -> bool:
    """Whether the method may have something to train on, though no image is here.

    Features of a frozen backbone stay, and a later phase goes on from what the one before left.
    """
    later = assignment.backbone is not None or order.follows is not None
    return later and _memory(state, assignment) is not None


def _memory(state: AgentState, assignment: Assignment) -> Digest | None:
    """Return what is remembered of this network; what was of another one is of no use to it."""
    records = state.records
    return records.memory if records.memory_lineage in {None, assignment.lineage} else None


def _is_ready(state: AgentState, assignment: Assignment) -> bool:
    """Whether disk and files are known."""
    needed = {offer.digest for offer in assignment.offers}
    return (
        state.scanning.done_for == assignment.action
        and state.scanning.at_rest
        and needed <= state.files.here
    )


def images_asked(
    images: Mapping[Digest, Sighting],
    order: RoundOrder,
    *,
    unusable: Collection[Digest] = (),
) -> tuple[ImageToCount, ...]:
    """Return the images of the head's classes, by path; aliases count as what they mean.

    One that shows several goes by the first of them that the head has.
    """
    rows = set(order.class_names)
    found = []
    for digest, sighting in images.items():
        names = [order.aliases.get(name, name) for name in sighting.shown]
        known = [name for name in names if name in rows]
        if known and digest not in unusable:
            found.append(ImageToCount(sighting.path, digest, known[0]))
    return tuple(sorted(found, key=lambda image: image.path))


def _job(assignment: Assignment, order: RoundOrder) -> TrainingJob:
    key = PartKey(stage=assignment.stage, part=order.number)
    method, lineage, masked = assignment.method, assignment.lineage, asks_masks(assignment)
    return TrainingJob(key, order.phase, method, lineage, order.observes, masked)


def _is_asked(state: AgentState, job: TrainingJob) -> bool:
    """Whether the newest assignment still asks for a job."""
    assignment = state.records.assignment
    if assignment is None or assignment.round is None:
        return False
    return _job(assignment, assignment.round) == job


def _job_ended(state: AgentState, unusable: tuple[tuple[Digest, str], ...]) -> AgentDecision:
    if not unusable:
        return change(Training())
    problems = [problem("sample", sample_text(state, *item)) for item in unusable]
    told = report_problems(state.told, problems, state.rules)
    return change(Training(), images_unusable(unusable), told)


def _lost_answer(state: AgentState) -> PartKey | None:
    """Return the key of an answer that waits to be fetched, or masked, from a file that is gone."""
    masking = state.records.masking
    for ready, part in state.records.ready.items():
        if part.round is None or part.payload in state.files.here:
            continue
        if masking is None or masking.key != ready:
            return ready
    for key, message in state.records.outbox.items():
        body = message.body
        if not isinstance(body, Contribution) or body.round is None or body.offer is None:
            continue
        if body.cohort is not None:
            continue  # the others go on without this device, and then it may answer anew
        if body.payload not in state.files.here:
            return key.key
    return None
