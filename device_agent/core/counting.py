"""Rules of counting: every image is in one part, under one class, once.

What the worker is to compute is found by looking at the whole state, in the order of `work_due`,
whenever something has changed. So nothing has to be remembered about what is still to be done, and
a restart finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Change, Durable
from fleetledger.device_agent.core.companions import told_in, with_companions
from fleetledger.device_agent.core.decision import (
    NOTHING_TO_DO,
    AgentDecision,
    Waits,
    ask,
    change,
    tried,
)
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import Line, because, contribution_line, of_part
from fleetledger.device_agent.core.notices import problem, recovered, report_problems
from fleetledger.device_agent.core.policy import asks_masks, declines, overspends
from fleetledger.device_agent.core.records import (
    CountedImage,
    CountingState,
    GivenPart,
    ImageToCount,
    Job,
    OutboxKey,
    OutboxMessage,
    ReadyPart,
    Scanning,
)
from fleetledger.device_agent.core.requests import ComputePart
from fleetledger.device_agent.core.scans import counted_images
from fleetledger.device_agent.core.standing_problems import (
    UNANSWERED,
    left_out,
    sample_text,
    unanswered_images,
)
from fleetledger.device_agent.core.state import AgentState
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution, Nothing, PartKey, Withdrawal
from fleetledger.schemas.values import ClassName, Digest

FOREIGN = "made by an earlier installation of this device, which counts its images anew"
_DOUBLINGS = 30
"""Parts of a stage after which a pause does not grow, whatever the longest one is."""
RELABELLED = "its images were moved to classes that are not known yet or have too few images"


def work_due(state: AgentState, now: float) -> AgentDecision:
    """Find the next thing to count, or note that there is none until something changes."""
    work = state.work
    joins = work.settled and 0 < work.joins_at <= now
    if work.job is not None or (work.settled and not joins) or now < work.retry.due:
        return NOTHING_TO_DO
    foreign = _withdraw_foreign_parts(state)
    if foreign:
        return foreign
    assignment = state.records.assignment
    if assignment is None:
        return NOTHING_TO_DO
    refused = declines(state.rules, assignment)
    if refused:
        return _refuse(state, assignment, refused) or change(replace(work, settled=True))
    if not _can_count(state, assignment):
        return NOTHING_TO_DO
    return (
        _deal_anew(state, assignment)
        or _repeat_a_part(state, assignment)
        or _make_a_part(state, assignment, now)
        or _say_nothing(state, assignment)
        or change(replace(work, settled=True))
    )


def _refuse(state: AgentState, assignment: Assignment, reason: str) -> AgentDecision:
    """Say once for a stage why this device gives nothing: it may not, or cannot."""
    if assignment.frozen is None or assignment.stage in state.records.nothing:
        return NOTHING_TO_DO
    return change(nothing_written(assignment.stage, reason))


def nothing_written(stage: int, reason: str = "") -> Durable:
    """Say that the device gives nothing for a stage.

    `reason` is why it may not or cannot; empty where there is no data.
    """

    def write(draft: Draft) -> None:
        draft.nothing.add(stage)
        message = OutboxKey("nothing", PartKey(stage=stage, part=0))
        draft.post(message, OutboxMessage(0, Nothing(stage=stage, reason=reason)))

    text = f"nothing for stage {stage}{because(reason)}"
    return Durable(write, Line("stage.nothing", text, {"stage": stage, "reason": reason}))


def _can_count(state: AgentState, assignment: Assignment) -> bool:
    """Whether disk, frozen model and free part numbers are known."""
    return (
        state.scanning.done_for == assignment.action
        and state.scanning.at_rest
        and assignment.frozen is not None
        and assignment.frozen.digest in state.files.here
        and state.records.next_part is not None
    )


def _withdraw_foreign_parts(state: AgentState) -> AgentDecision:
    """Withdraw what the coordinator holds and this installation does not have."""
    if not state.presence.welcomed:
        return NOTHING_TO_DO
    withdrawals: list[Change] = []
    for key, held in state.presence.held.items():
        part = state.records.parts.get(key)
        if (part is not None and part.state != "withdrawn") or _is_hidden(state, key):
            continue
        message = state.records.outbox.get(OutboxKey("withdrawal", key))
        if message is not None and message.revision > held.revision:
            continue
        revision = max(held.revision, part.revision if part is not None else 0) + 1
        withdrawals.append(part_withdrawn(key, revision, FOREIGN))
    return AgentDecision(tuple(withdrawals))


def part_withdrawn(key: PartKey, revision: int, reason: str) -> Durable:
    """Take a part out of the sum; its images may be counted again."""

    def write(draft: Draft) -> None:
        release_images(draft, key)
        known = draft.parts.get(key)
        lineage = known.lineage if known is not None else None
        draft.parts[key] = GivenPart(revision, "withdrawn", lineage, None)
        draft.take_out(OutboxKey("contribution", key))
        body = Withdrawal(key=key, revision=revision, reason=reason)
        draft.post(OutboxKey("withdrawal", key), OutboxMessage(revision, body))

    text = f"takes part {key.part} of stage {key.stage} back{because(reason)}"
    return Durable(write, Line("part.withdrawn", text, of_part(key, reason=reason)))


def release_images(draft: Draft, key: PartKey) -> None:
    """Let the images of a part be counted again."""
    part = draft.parts.get(key)
    if part is None or part.lineage is None:
        return
    counted = draft.counted[part.lineage]
    for digest in [digest for digest, item in counted.items() if item.key == key]:
        del counted[digest]


def _repeat_a_part(state: AgentState, assignment: Assignment) -> AgentDecision:
    """Compute a part anew whose images were relabelled, or that the coordinator lacks."""
    relabelled = _relabelled_parts(state)
    missing = {**_missing_parts(state, assignment), **_lost_payloads(state, assignment)}
    masking = state.records.masking
    for key in sorted({*relabelled, *missing}, key=lambda key: (key.stage, key.part)):
        if masking is not None and key == masking.key:
            continue  # what was joined with is given first
        revision = max(state.records.parts[key].revision + 1, missing.get(key, 0))
        images = _images_of(state, assignment, key)
        spent = overspends(assignment, state.records.parts, key) if images else ""
        if spent and spent != state.work.trouble:
            return change(replace(state.work, trouble=spent))
        if images and not spent:
            return _compute(state, assignment, key, revision, images)
        if images:
            continue
        if key in relabelled and _is_hidden(state, key):
            return change(part_taken_out(key, revision, assignment.method, RELABELLED))
        if key in relabelled:
            return change(part_withdrawn(key, revision, RELABELLED))
    return NOTHING_TO_DO


def _relabelled_parts(state: AgentState) -> set[PartKey]:
    """Parts with an image that now lies under another class only."""
    images = state.scanning.images
    return {
        item.key
        for digest, item in counted_images(state.records).items()
        if digest in images and images[digest].class_name != item.class_name
    }


def _missing_parts(state: AgentState, assignment: Assignment) -> dict[PartKey, int]:
    """Parts that the coordinator lacks or has otherwise, each with the revision that mends it.

    Otherwise, because a message of an earlier installation arrived late: it may have used the same
    key, and ours may have been refused for it.
    """
    if not state.presence.welcomed:
        return {}
    missing = {}
    for key, part in state.records.parts.items():
        if part.lineage != assignment.lineage or part.state == "withdrawn":
            continue
        if _is_hidden(state, key):
            continue  # nobody is given it twice: the two sums would differ by it
        if key.stage > assignment.stage:
            continue
        held = state.presence.held.get(key)
        if held is None or held.revision < part.revision:
            if part.state == "accepted":
                missing[key] = part.revision + 1
        elif held.revision > part.revision or held.payload != part.payload:
            missing[key] = held.revision + 1
    return missing


def _lost_payloads(state: AgentState, assignment: Assignment) -> dict[PartKey, int]:
    """Parts whose payload waits to be fetched, or masked, from a file that is gone."""
    unmasked = {
        key: part.revision + 1
        for key, part in state.records.ready.items()
        if part.round is None
        and part.lineage == assignment.lineage
        and part.payload is not None
        and part.payload not in state.files.here
    }
    return unmasked | {
        message.body.key: message.revision + 1
        for message in state.records.outbox.values()
        if isinstance(message.body, Contribution)
        and message.body.round is None
        and message.body.cohort is None
        and message.body.lineage == assignment.lineage
        and message.body.offer is not None
        and message.body.payload not in state.files.here
    }


def _is_hidden(state: AgentState, key: PartKey) -> bool:
    """Whether a part is in the sum of a cohort, or is to be."""
    return key in state.records.hidden or key in state.records.ready


def _deal_anew(state: AgentState, assignment: Assignment) -> AgentDecision:
    """Count the images of parts anew, in this stage, that no cohort of their stage took."""
    masking = state.records.masking
    named = None if masking is None or masking.number is None else masking.key
    late = [
        key
        for key, part in state.records.ready.items()
        if part.round is None
        and part.lineage == assignment.lineage
        and key.stage < assignment.stage
        and key not in state.records.hidden
        and key != named
    ]
    if not late:
        return NOTHING_TO_DO

    def write(draft: Draft) -> None:
        for key in late:
            release_images(draft, key)
            lineage = draft.ready.pop(key).lineage
            draft.parts[key] = GivenPart(draft.parts[key].revision, "withdrawn", lineage, None)

    return change(Durable(write), replace(state.files, littered=True))


def part_taken_out(key: PartKey, revision: int, method: str, reason: str) -> Durable:
    """Take a part out of the sums of cohorts, by its exact negative; its images may count again."""

    def write(draft: Draft) -> None:
        release_images(draft, key)
        lineage = draft.parts[key].lineage
        given = draft.hidden.get(key)
        draft.ready.pop(key, None)
        if given is None or given.payload is None or lineage is None:
            draft.parts[key] = GivenPart(revision, "withdrawn", lineage, None)
            return
        draft.parts[key] = GivenPart(revision, "waiting", lineage, None)
        draft.ready[key] = ReadyPart(revision, method, lineage, None)

    text = f"takes part {key.part} of stage {key.stage} back{because(reason)}"
    return Durable(write, Line("part.withdrawn", text, of_part(key, reason=reason)))


def _images_of(state: AgentState, assignment: Assignment, key: PartKey) -> tuple[ImageToCount, ...]:
    """Images of a part that are still on the disk, under classes that are known."""
    counted = counted_images(state.records)
    of_part = (digest for digest, item in counted.items() if item.key == key)
    return _enough(state, _known_images(state, assignment, of_part), assignment)


def _make_a_part(state: AgentState, assignment: Assignment, now: float) -> AgentDecision:
    """Put images that are in no part into a new one, the first in the order of the paths.

    Those that do not fill one wait for others, where the stage has a part of this device already.
    """
    counted = counted_images(state.records)
    images = _known_images(
        state, assignment, (digest for digest in state.scanning.images if digest not in counted)
    )
    # Those left over by the first look, and those that the cut leaves too few of, wait.
    images = _enough(state, images, assignment)[: assignment.max_samples_per_part]
    images = _enough(state, images, assignment)
    if not images:
        return NOTHING_TO_DO
    joins_at = _joins_at(state, assignment)
    if len(images) < assignment.max_samples_per_part and now < joins_at:
        return change(replace(state.work, settled=True, joins_at=joins_at))
    key = PartKey(stage=assignment.stage, part=state.records.free_part())
    spent = overspends(assignment, state.records.parts, key)
    if spent:
        settled = change(replace(state.work, settled=True, trouble=spent))
        return settled + _refuse(state, assignment, spent)
    return _compute(state, assignment, key, 0, images)


def _joins_at(state: AgentState, assignment: Assignment) -> float:
    """Return when images go into a part that they do not fill.

    The first part of a stage, that of a run of the agent, and what is left of images that filled
    one, are given at once. Every further one of the stage waits for twice as long.
    """
    given = sum(
        key.stage == assignment.stage and part.lineage == assignment.lineage
        for key, part in state.records.parts.items()
    )
    if state.work.gave_at is None or not given:
        return 0.0
    rules = state.rules
    growing = rules.pause_seconds * 2.0 ** min(given - 1, _DOUBLINGS)
    return state.work.gave_at + min(growing, rules.longest_pause_seconds)


def _known_images(
    state: AgentState, assignment: Assignment, digests: Iterable[Digest]
) -> tuple[ImageToCount, ...]:
    known = set(assignment.class_names)
    images, left = state.scanning.images, left_out(state)
    told = state.records.told.get(assignment.lineage, {})
    found = (
        ImageToCount(images[digest].path, digest, images[digest].class_name, told.get(digest, ""))
        for digest in digests
        if digest in images and digest not in left and images[digest].class_name in known
    )
    return tuple(sorted(found, key=lambda image: image.path))


def _enough(
    state: AgentState, images: tuple[ImageToCount, ...], assignment: Assignment
) -> tuple[ImageToCount, ...]:
    """Leave out images that a sum, or what it differs by from another, would tell of."""
    told = state.records.told.get(assignment.lineage, {})
    return with_companions(images, told, assignment.min_samples_per_class)


def _compute(
    state: AgentState,
    assignment: Assignment,
    key: PartKey,
    revision: int,
    images: tuple[ImageToCount, ...],
) -> AgentDecision:
    hides = asks_masks(assignment) and key not in state.records.parts
    masked = hides or _is_hidden(state, key)
    job = Job(key, revision, assignment.method, assignment.lineage, masked)
    work = replace(state.work, job=job, images=images)
    return change(work) + ask(ComputePart(job, assignment, images))


def _say_nothing(state: AgentState, assignment: Assignment) -> AgentDecision:
    """Say once that there is no data for a stage, so that it need not wait for this device."""
    stage = assignment.stage
    answered = stage in state.records.nothing or any(
        key.stage == stage and part.state in ("waiting", "accepted")
        for key, part in state.records.parts.items()
    )
    return NOTHING_TO_DO if answered else change(nothing_written(stage))


def part_computed(state: AgentState, event: inputs.PartComputed, now: float) -> AgentDecision:
    """Write part, message and counted images together, before anything is sent."""
    if event.job != state.work.job:
        return NOTHING_TO_DO
    decision = _job_ended(state, event.unusable, _gave_at(state, event.job, now))
    if _some_vanished(state, event.used, event.unusable):
        decision += change(_scan_again(state, now))
    assignment = state.records.assignment
    if assignment is None or (assignment.method, assignment.lineage) != (
        event.job.method,
        event.job.lineage,
    ):
        return decision
    images = tuple(
        (image.digest, image.class_name)
        for image in state.work.images
        if image.digest in event.used
    )
    given = event.contribution
    if given.offer is not None:
        decision += change(replace(state.files, here=state.files.here | {given.payload}))
    if event.job.masked:
        return decision + change(part_ready(given, images))
    return decision + change(part_written(given, images, event.attached, event.cells))


def part_ready(body: Contribution, images: tuple[tuple[Digest, ClassName], ...]) -> Durable:
    """Write part and counted images, which wait to be given behind masks."""

    def write(draft: Draft) -> None:
        _count(draft, body, images)
        part = ReadyPart(body.revision, body.method, body.lineage, body.payload)
        draft.ready[body.key] = part

    return Durable(write, contribution_line("contribution.made", "made", body))


def _count(
    draft: Draft,
    body: Contribution,
    images: tuple[tuple[Digest, ClassName], ...],
    cells: Mapping[Digest, int] = MappingProxyType({}),
) -> None:
    release_images(draft, body.key)
    counted, told = draft.counted[body.lineage], draft.told[body.lineage]
    for digest, name in images:
        counted[digest] = CountedImage(body.key, name)
        told[digest] = told_in(body, told.get(digest, ""), name, cells.get(digest, 0))
    draft.measured -= {digest for digest, _ in images}
    draft.parts[body.key] = GivenPart(body.revision, "waiting", body.lineage, body.payload)


def part_written(
    body: Contribution,
    images: tuple[tuple[Digest, ClassName], ...],
    attached: bytes | None,
    cells: Mapping[Digest, int] = MappingProxyType({}),
) -> Durable:
    """Write part, message and counted images, in place of an earlier revision's.

    `attached` is the payload, unless it is offered. `cells` are as `PartComputed` has them.
    """

    def write(draft: Draft) -> None:
        _count(draft, body, images, cells)
        draft.post(
            OutboxKey("contribution", body.key), OutboxMessage(body.revision, body), attached
        )

    return Durable(write, contribution_line("contribution.made", "made", body))


def _gave_at(state: AgentState, job: Job, now: float) -> float | None:
    """Return since when images that do not fill a part wait; what is left of more goes at once."""
    if job.revision > 0:
        return state.work.gave_at
    assignment = state.records.assignment
    filled = assignment is not None and (len(state.work.images) >= assignment.max_samples_per_part)
    return None if filled else now


def part_empty(state: AgentState, event: inputs.PartEmpty, now: float) -> AgentDecision:
    """Look again after the next scan, since no image of the job could be used."""
    if event.job != state.work.job:
        return NOTHING_TO_DO
    decision = _job_ended(state, event.unusable, state.work.gave_at)
    if _some_vanished(state, frozenset(), event.unusable):
        decision += change(_scan_again(state, now))
    return decision


def samples_unanswered(
    state: AgentState, event: inputs.SamplesUnanswered, _now: float
) -> AgentDecision:
    """Leave images out of which the frozen model makes no finite features, and tell their paths."""
    reasons = tuple((digest, UNANSWERED) for digest in event.images)
    problems = [problem("sample", sample_text(state, *item)) for item in reasons]
    told = report_problems(state.told, problems, state.rules)
    return change(images_unanswered(event.frozen, reasons), told)


def images_unanswered(frozen: Digest, images: tuple[tuple[Digest, str], ...]) -> Durable:
    """Leave out images of which a frozen model makes no finite features.

    What was noted of other frozen models is forgotten.
    """

    def write(draft: Draft) -> None:
        for other in list(draft.unanswered):
            if other != frozen:
                draft.unanswered[other].clear()
        draft.unanswered[frozen].update(images)

    return Durable(write)


def images_unusable(images: tuple[tuple[Digest, str], ...]) -> Durable:
    """Leave out images that do not decode, until their bytes change."""
    return Durable(lambda draft: draft.unusable.update(images))


def _some_vanished(
    state: AgentState, used: frozenset[Digest], unusable: tuple[tuple[Digest, str], ...]
) -> bool:
    """Whether images of the job were gone, or are not what they were."""
    left = {digest for digest, _ in unusable} | unanswered_images(state.records).keys()
    return any(image.digest not in used and image.digest not in left for image in state.work.images)


def part_failed(state: AgentState, event: inputs.PartFailed, now: float) -> AgentDecision:
    """Try a job that could not be done again later; nothing is lost."""
    if event.job != state.work.job:
        return NOTHING_TO_DO
    waits = Waits(state.rules.retry_shortest, state.rules.retry_longest)
    retry = tried(state.work.retry, now, waits, state.identity.boot, "work")
    told = report_problems(state.told, [problem("contribution", event.reason)], state.rules)
    work = CountingState(retry=retry, trouble=event.reason, gave_at=state.work.gave_at)
    return change(work, told)


def _job_ended(
    state: AgentState, unusable: tuple[tuple[Digest, str], ...], gave_at: float | None
) -> AgentDecision:
    work = CountingState(gave_at=gave_at)
    told = recovered(state.told, [state.work.trouble])
    if not unusable:
        return change(work, told)
    problems = [problem("sample", sample_text(state, *item)) for item in unusable]
    told = report_problems(told, problems, state.rules)
    return change(work, images_unusable(unusable), told)


def _scan_again(state: AgentState, now: float) -> Scanning:
    """Files vanished or changed since the scan, so nothing is decided on it any more."""
    return replace(state.scanning, due=now, done_for=None)
