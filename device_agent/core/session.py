"""The agent's session: one input in, changes and requests out.

The rules, in the order of their modules:

- **Connecting** (`presence`). A connection begins with a retained birth on the topic of the will,
  repeated with growing waits until the coordinator's welcome to this boot is complete. A new run of
  the coordinator gets a new birth. Nothing but births and heartbeats is sent before the welcome, or
  while the coordinator is away.
- **Health** (`presence`). Once welcomed, a device says now and then how its machine is, unless the
  coordinator answers that it does not know such a message.
- **Enrolment** (`enrolment`). A key that waits for the coordinator's word is shown to it until the
  answer; a device without another key says nothing else before.
- **A shorter ledger** (`presence`, `coordinator_presence`). If a new run of the coordinator has
  fewer entries than this device has seen, its assignments and models begin anew, and the owner is
  told. A device with the coordinator's key does not believe such a run, until its owner says
  otherwise.
- **Silence** (`coordinator_presence`). The owner is told when nothing new came for long that the
  coordinator signed.
- **Scans** (`scans`). The data folder is scanned every few seconds and for every new
  assignment. While files are being written, counting waits, for ten scans at most. Of an image in
  two class folders, the place under which it is counted stands, else the first; it is reported.
- **Counting** (`counting`). An image is its content: moving, copying or renaming a file changes
  nothing, and a deleted one stays counted, since the fleet has learned from it. An image that lies
  only under another class makes its part be computed anew, with the next revision, from the images
  that are still readable; images that are not may be counted again when they come back.
- Images of classes that the assignment does not know wait; they are reported once per change.
- Images that were not counted go into new parts of at most `max_samples_per_part`, under numbers
  that this device never used; classes of which a part would have fewer than
  `min_samples_per_class` wait. Without any for a new stage, the device says so once.
- Images that do not fill another part of a stage wait for others, with pauses that grow, so that a
  device that gets an image now and then gives few parts.
- What the coordinator holds and this installation does not have is withdrawn before anything is
  contributed. What it lacks, or holds otherwise, is computed anew with a higher revision.
- Every lineage (frozen model) is counted by itself. Parts of another one are left alone, and
  their messages wait in case it returns.
- **Policy** (`policy`). What the owner does not let leave this device is neither computed nor
  sent; the device says once per stage, or round, that it gives nothing, and why; so it does where a
  method or a network of somebody's own is not installed here. Where orders may
  ask for images themselves, it says with the first assignment what becomes of them.
- **Training** (`training`). An order of a round that was not answered is carried out when its files
  are here and the folder was scanned for it; an order that is over is dropped, with its result.
  An order to look at the images alone is answered by a 'nothing' that says what was seen.
- **Masked cohorts** (`cohorts`). Where numbers are hidden, a part or an answer is not given as it
  is: the device joins a cohort with it, and gives it behind masks that vanish in the cohort's sum.
- **Gradients** (`gradients`). What a training makes for the proxy is a message to it, written in
  the same transaction as the answer. Nobody waits for it.
- **Detection** (`detection`). Class names that the fleet lacks are reported once. New images are
  measured with the active model before they are counted; a batch that is less certain than the
  device's earlier ones is reported once.
- **Outbox** (`outbox`). Part, message and counted images are written in one transaction before
  the message is sent. It is sent again with growing waits until its receipt: accepted, and it is
  dropped; refused, and it moves to the dead letters, its images staying counted so that they are
  not sent for ever; later, and it waits. A part that the operator retracts after its receipt is
  like a refused one: its images stay counted, and are given again under no number.
- **Models** (`models`). Only a higher action than the last is acted on. What is not here is
  fetched, one file at a time, and not any more once a newer one does without it; then the model is
  verified, self-tested and switched to; whatever comes of it is reported, and measured on the
  evaluation folder. A model that fails leaves the former one. Where it is given, a device switches
  in hours of its own day alone.
- **Comparison** (`comparison`). In a rollout two models are compared on the same images, before the
  switch or after it, once; the message with what was counted goes to the outbox.
- **Settling** (`settling`). A model that has run for long enough is told to have settled.
- **Patience** (`patience`). A desired model that is not installed at its deadline is reported as
  failed. The deadline counts from its arrival, over restarts, and not by the calendar.
- **Releases** (`releases`). With the fleet's root, nothing is done about a desired model before
  root, release and manifest were judged; what is refused is reported, and nothing of it is kept.
- **Notices** (`notices`). Problems are told once, reports after every welcome.

Nothing here reads a clock or a file: `now` is any clock in seconds that does not go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

from fleetledger.device_agent.core import (
    cohorts,
    comparison,
    coordinator_presence,
    counting,
    detection,
    enrolment,
    gradients,
    inputs,
    models,
    notices,
    outbox,
    patience,
    presence,
    scans,
    settling,
    training,
    variants,
)
from fleetledger.device_agent.core.changes import Durable
from fleetledger.device_agent.core.decision import AgentDecision, ask
from fleetledger.device_agent.core.requests import Request, WakeAt
from fleetledger.device_agent.core.state import AgentRecords, AgentState

_MAX_STEPS = 1000
"""Decisions that one input may lead to; more means that two rules undo each other."""

Commit = Callable[[AgentRecords, tuple[Durable, ...]], None]
"""Makes changes durable and brings them into the records, or raises and changes nothing."""
Rule = Callable[[AgentState, float], AgentDecision]


def decide(
    state: AgentState, event: inputs.Input, now: float, rules: Sequence[Rule] | None = None
) -> AgentDecision:
    """Decide about one input; for `Ticked`, the first rule that has something to do decides.

    `rules` are all that there are, unless others are given.
    """
    if isinstance(event, inputs.Ticked):
        return _decide_due(state, now, _WHEN_DUE if rules is None else rules)
    return _BY_INPUT[type(event)](state, event, now)


def turn(
    state: AgentState,
    event: inputs.Input,
    now: float,
    commit: Commit,
    rules: Sequence[Rule] | None = None,
) -> Iterator[Request]:
    """Decide and commit until there is nothing left to do; yield requests after commits.

    Whoever iterates carries each request out at once. If `commit` raises, nothing has changed.
    `rules` are those of `decide`.
    """
    for _ in range(_MAX_STEPS):
        decision = decide(state, event, now, rules)
        durable = tuple(item for item in decision.changes if isinstance(item, Durable))
        if durable:
            commit(state.records, durable)
        for item in decision.changes:
            if not isinstance(item, Durable):
                state.replace(item)
        yield from decision.requests
        if isinstance(event, inputs.Ticked) and not decision.changes:
            return
        event = inputs.Ticked()
    raise AssertionError(f"the rules did not come to rest after {_MAX_STEPS} steps")


def _decide_due(state: AgentState, now: float, rules: Sequence[Rule]) -> AgentDecision:
    for rule in rules:
        decision = rule(state, now)
        if decision:
            return decision
    return ask(WakeAt(_next_time(state, now)))


def _next_time(state: AgentState, now: float) -> float:
    """Return when a rule may next have something to do by time alone."""
    times = [item.due for item in state.files.tries.values()]
    times += [state.files.starved.due, state.work.retry.due, state.training.retry.due]
    times.append(state.cohorts.retry.due)
    times.append(state.work.joins_at)
    times += [outbox.next_message(state, now) or now]
    times.append(state.models.clock_due)
    deadlines = (
        patience.next_time(state),
        coordinator_presence.next_time(state),
        settling.next_time(state),
    )
    times += [deadline for deadline in deadlines if deadline is not None]
    if not state.scanning.running:
        times.append(state.scanning.due)
    if state.presence.connected:
        times += [state.presence.birth.due, state.presence.heartbeat_due]
        times.append(state.enrolling.tried.due)
        if state.rules.health_seconds is not None:
            times.append(state.presence.health_due)
    return min((time for time in times if time > now), default=now + state.rules.scan_seconds)


def _started(state: AgentState, event: inputs.Started, now: float) -> AgentDecision:
    begun = models.started(state, event, now) + patience.started(state, event, now)
    return begun + coordinator_presence.started(state, now)


def _welcomed(state: AgentState, event: inputs.Welcomed, now: float) -> AgentDecision:
    return presence.welcomed(state, event, now) + cohorts.join_again(state)


def _enrolled(state: AgentState, event: inputs.KeyEnrolled, now: float) -> AgentDecision:
    """Take a key; what waits for a cohort is said again, signed with it."""
    return enrolment.enrolled(state, event, now) + cohorts.join_again(state)


_WHEN_DUE: tuple[Rule, ...] = (
    enrolment.enrolment_due,
    presence.birth_due,
    scans.scan_due,
    patience.deadline_due,
    models.manifest_due,
    models.unneeded_fetch_due,
    models.fetch_due,
    detection.names_due,
    detection.measure_due,
    counting.work_due,
    training.training_due,
    cohorts.cohort_due,
    gradients.lost_due,
    outbox.messages_due,
    models.install_due,
    models.evaluation_due,
    comparison.candidate_due,
    comparison.comparison_due,
    models.cleaning_due,
    notices.images_due,
    notices.requirements_due,
    notices.reports_due,
    settling.settling_due,
    coordinator_presence.silence_due,
    notices.problems_due,
    presence.heartbeat_due,
    presence.health_due,
)

COUNTING: frozenset[Rule] = frozenset(
    {
        scans.scan_due,
        detection.names_due,
        counting.work_due,
        cohorts.cohort_due,
        outbox.messages_due,
        notices.reports_due,
        notices.problems_due,
    }
)
"""The rules of a device that is connected, counts, and does nothing else: those of models, rounds,
files and the connection find nothing to do on it."""
ACTING: frozenset[Rule] = COUNTING | {
    presence.birth_due,
    models.unneeded_fetch_due,
    models.fetch_due,
    models.install_due,
    models.cleaning_due,
}
"""Those of one that connects and installs models, too, without keys and a machine to tell of."""
MEASURING: frozenset[Rule] = frozenset({detection.measure_due})
"""Where new images are measured."""
TRAINED: frozenset[Rule] = frozenset({training.training_due})
"""Where networks are trained."""
COMPARING: frozenset[Rule] = frozenset(
    {
        patience.deadline_due,
        comparison.candidate_due,
        comparison.comparison_due,
        settling.settling_due,
    }
)
"""Where candidates go out."""


def in_order(chosen: Set[Rule]) -> tuple[Rule, ...]:
    """Return rules in the order in which they are asked."""
    return tuple(rule for rule in _WHEN_DUE if rule in chosen)


# Each function takes the input under which it is listed; one table cannot say so in types.
_BY_INPUT: dict[type, Callable[[AgentState, Any, float], AgentDecision]] = {
    inputs.Started: _started,
    inputs.AgentConnected: presence.connected,
    inputs.AgentDisconnected: presence.disconnected,
    inputs.CoordinatorBorn: presence.coordinator_born,
    inputs.CoordinatorBeat: coordinator_presence.beat,
    inputs.CoordinatorDied: presence.coordinator_died,
    inputs.Welcomed: _welcomed,
    inputs.KeyEnrolled: _enrolled,
    inputs.Assigned: scans.assigned,
    inputs.DesiredArrived: models.desired,
    inputs.ReceiptArrived: outbox.receipt_arrived,
    inputs.Scanned: scans.scanned,
    inputs.ScanFailed: scans.scan_failed,
    inputs.PartComputed: counting.part_computed,
    inputs.PartEmpty: counting.part_empty,
    inputs.SamplesUnanswered: counting.samples_unanswered,
    inputs.PartFailed: counting.part_failed,
    inputs.TrainingFinished: training.trained,
    inputs.JoinPrepared: cohorts.join_prepared,
    inputs.CohortRefused: cohorts.cohort_refused,
    inputs.PartMasked: cohorts.part_masked,
    inputs.MasksTold: cohorts.masks_told,
    inputs.CohortJobFailed: cohorts.cohort_job_failed,
    inputs.NoveltyChecked: training.observed,
    inputs.NothingToTrain: training.nothing_to_train,
    inputs.TrainingFailed: training.training_failed,
    inputs.FetchFinished: models.fetch_finished,
    inputs.FetchFailed: models.fetch_failed,
    inputs.FileDamaged: models.file_damaged,
    inputs.FilesListed: models.files_listed,
    inputs.ManifestRead: models.manifest_read,
    inputs.ModelInstalled: models.model_installed,
    inputs.VariantLeft: variants.left,
    inputs.CandidateKept: comparison.candidate_kept,
    inputs.CandidateForgotten: comparison.candidate_forgotten,
    inputs.ComparisonGoesOn: comparison.goes_on,
    inputs.Compared: comparison.compared,
    inputs.ComparisonFailed: comparison.failed,
    inputs.ThrottlingRead: settling.settled,
    inputs.LocalClockRead: models.clock_read,
    inputs.ModelRefused: models.model_refused,
    inputs.ModelFellBack: models.model_fell_back,
    inputs.EvaluationAsked: models.evaluation_asked,
    inputs.Evaluated: models.evaluated,
    inputs.UncertaintyMeasured: detection.measured,
    inputs.Noticed: notices.noticed,
}
