"""Rules of models: what is fetched, installed, evaluated and reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fleetledger.device_agent.core import (
    comparison,
    detection,
    inputs,
    releases,
    settling,
    variants,
)
from fleetledger.device_agent.core.changes import Change, Durable, Put, action_ended
from fleetledger.device_agent.core.decision import (
    NOTHING_TO_DO,
    AgentDecision,
    Waits,
    ask,
    change,
    tried,
)
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import Line
from fleetledger.device_agent.core.notices import (
    problem,
    recovered,
    report_happened,
    report_problems,
)
from fleetledger.device_agent.core.records import Files, ModelProgress, Try
from fleetledger.device_agent.core.requests import (
    CancelFetch,
    CheckActiveModel,
    CleanFiles,
    Evaluate,
    FetchFile,
    InstallModel,
    ReadLocalClock,
    ReadManifest,
    ShadowModel,
)
from fleetledger.device_agent.core.state import AgentRecords, AgentState
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.reports import Evaluation
from fleetledger.schemas.values import Digest

_CLOCK_SECONDS = 600.0
"""How often at least the clock is asked while a model waits for its hours."""
_MINUTES_OF_A_DAY = 24 * 60
_ROOM_SECONDS = 15.0
"""How often at least it is looked whether the disk has room again."""


def started(state: AgentState, event: inputs.Started, now: float) -> AgentDecision:
    """Know what runs and what lies around; test what runs."""
    stale = event.active is not None and (
        state.records.evaluation is None
        or state.records.evaluation.manifest != event.active.manifest
    )
    models = ModelProgress(
        active=event.active,
        variant=event.variant,
        evaluate=stale and state.rules.evaluates,
        candidate=event.candidate,
        settling_since=now,
    )
    decision = change(models, replace(state.files, here=event.files, littered=True))
    expired = releases.expired(state, event.time_ns)
    if expired:
        decision += change(report_happened(state.told, [problem("model", expired)], state.rules))
    decision += variants.started(state, event)
    return decision + ask(CheckActiveModel(event.active)) if event.active else decision


def desired(state: AgentState, event: inputs.DesiredArrived, _now: float) -> AgentDecision:
    """Act only on a higher action than the last and, with a root, on what was released.

    What is refused leaves no trace but the report, so that nobody can shut out what follows.
    """
    verdict = releases.judge(state, event)
    known = state.records.desired
    if known is not None and event.desired.action <= known.action:
        return AgentDecision(verdict.root)
    if verdict.refusal:
        return AgentDecision(verdict.root) + _not_taken(state, event.desired, verdict.refusal)
    return AgentDecision((*verdict.root, *verdict.release)) + change(
        desired_taken(event),
        replace(state.files, tries={}),
        replace(state.models, clock_due=0.0),
    )


def desired_taken(event: inputs.DesiredArrived) -> Durable:
    """Replace the desired model that was known, and forget what was begun with another one."""
    desired_model, manifest = event.desired, event.desired.manifest.digest

    def write(draft: Draft) -> None:
        draft.desired, draft.ledger_boot = desired_model, event.coordinator
        if draft.comparing is not None and draft.comparing.candidate.manifest != manifest:
            draft.comparing = None
        if draft.settling is not None and draft.settling.model.manifest != manifest:
            draft.settling = None

    version, mode = desired_model.version, desired_model.mode or "run"
    fields = {"version": version, "index": desired_model.action, "mode": mode}
    return Durable(write, Line("model.asked", f"asked to {mode} model {version}", fields))


def _not_taken(state: AgentState, desired_model: DesiredModel, reason: str) -> AgentDecision:
    """Report that a desired model is refused, once."""
    manifest = desired_model.manifest.digest
    status = _status(desired_model.version, manifest, "failed", f"refused: {reason}")
    if status == state.records.status:
        return NOTHING_TO_DO
    return change(action_ended(None, status), replace(state.told, status=False))


def open_action(state: AgentState) -> DesiredModel | None:
    """Return the desired model that was not brought to an end yet."""
    return _open_action(state.records)


def _open_action(records: AgentRecords) -> DesiredModel | None:
    desired_model = records.desired
    if desired_model is None or desired_model.action == records.acted:
        return None
    return desired_model


def digests_of(action: DesiredModel) -> set[Digest]:
    """Return the digests of everything that is offered with a desired model."""
    return {offer.digest for offer in action.offers}


def needed_digests(state: AgentState, action: DesiredModel) -> set[Digest]:
    """Return the digests of what it is installed with."""
    return {offer.digest for offer in (action.manifest, *variants.needed_files(state, action))}


def _needed(state: AgentState) -> Iterator[Offer]:
    if state.records.assignment is not None:
        yield from state.records.assignment.offers
    action = open_action(state)
    if action is not None:
        yield action.manifest
        if _files_are_known(state, action):
            yield from variants.needed_files(state, action)


def _files_are_known(state: AgentState, action: DesiredModel) -> bool:
    """Whether the files are those of a manifest that was released, where there must be one."""
    return state.rules.pinned is None or state.models.read == action.action


def manifest_due(state: AgentState, _now: float) -> AgentDecision:
    """With a root, compare manifest and offered files before these are fetched."""
    action, models = open_action(state), state.models
    if action is None or models.reading or models.installing is not None:
        return NOTHING_TO_DO
    if _files_are_known(state, action):
        return NOTHING_TO_DO
    if action.manifest.digest not in state.files.here:
        return NOTHING_TO_DO
    return change(replace(models, reading=True)) + ask(ReadManifest(action))


def manifest_read(state: AgentState, event: inputs.ManifestRead, _now: float) -> AgentDecision:
    """Let the files be fetched that a released manifest names."""
    return change(replace(state.models, reading=False, read=event.action))


def unneeded_fetch_due(state: AgentState, _now: float) -> AgentDecision:
    """Call off the fetch of a file that the newest assignment and model do without."""
    fetching = state.files.fetching
    if fetching is None or any(offer.digest == fetching.digest for offer in _needed(state)):
        return NOTHING_TO_DO
    files = replace(state.files, fetching=None, littered=True, trouble="")
    return change(files) + ask(CancelFetch(fetching.digest))


def fetch_due(state: AgentState, now: float) -> AgentDecision:
    """Fetch one file at a time, what the assignment needs first, and only what is not here."""
    files = state.files
    if not state.presence.served or files.fetching is not None or now < files.starved.due:
        return NOTHING_TO_DO
    for offer in _needed(state):
        if offer.digest in files.here or now < files.tries.get(offer.digest, Try(0, now)).due:
            continue
        return change(replace(files, fetching=offer)) + ask(FetchFile(offer))
    return NOTHING_TO_DO


def fetch_finished(state: AgentState, event: inputs.FetchFinished, _now: float) -> AgentDecision:
    """Note that a file is whole and here."""
    files = replace(
        state.files,
        here=state.files.here | {event.digest},
        fetching=None if _is_fetching(state, event.digest) else state.files.fetching,
        starved=Try(0, 0.0),
        trouble="",
    )
    told = recovered(state.told, [state.files.trouble])
    return change(files, replace(state.work, settled=False), told)


def fetch_failed(state: AgentState, event: inputs.FetchFailed, now: float) -> AgentDecision:
    """Try again later; a desired model whose file does not come is given up in the end.

    A full disk here says nothing of the file: it is waited for room until the deadline.
    """
    if not _is_fetching(state, event.digest):
        return NOTHING_TO_DO  # it was called off
    if event.full_disk:
        text = f"file {event.digest.short}: {event.reason}; free some space, it is asked for again"
        told = report_problems(state.told, [problem("model", text)], state.rules)
        return change(_starved(state, event.digest, now, text), told)
    count, files = _note_failure(state, event.digest, now)
    action = open_action(state)
    last_try = count >= state.rules.fetch_tries
    variant = None if action is None else variants.chosen(state, action)
    if last_try and variant is not None and event.digest == variant.frozen.digest:
        return change(files) + variants.did_not_come(state, variant, count)
    if last_try and action is not None and event.digest in needed_digests(state, action):
        tries = count_of(count, "try", "tries")
        reason = f"file {event.digest.short} did not come in {tries}: {event.reason}"
        return change(files) + ended(state, action, "failed", reason)
    text = f"file {event.digest.short}: {event.reason}; it is asked for again"
    told = report_problems(state.told, [problem("model", text)], state.rules)
    return change(replace(files, trouble=text), told)


def _is_fetching(state: AgentState, digest: Digest) -> bool:
    return state.files.fetching is not None and state.files.fetching.digest == digest


def file_damaged(state: AgentState, event: inputs.FileDamaged, now: float) -> AgentDecision:
    """Count a damaged file as missing: it is fetched again, a little later each time.

    A payload is computed again (see `counting`).
    """
    _, files = _note_failure(state, event.digest, now)
    decision = change(files, replace(state.work, settled=False))
    if state.models.installing is not None or state.models.reading:
        decision += change(replace(state.models, installing=None, reading=False))
    return decision


def _note_failure(state: AgentState, digest: Digest, now: float) -> tuple[int, Files]:
    waits = Waits(state.rules.retry_shortest, state.rules.retry_longest)
    before = state.files.tries.get(digest, Try(0, now))
    again = tried(before, now, waits, state.identity.boot, digest)
    files = replace(
        state.files,
        here=state.files.here - {digest},
        fetching=None if _is_fetching(state, digest) else state.files.fetching,
        littered=True,
        tries={**state.files.tries, digest: again},
        trouble="",
    )
    return again.count, files


def _starved(state: AgentState, digest: Digest, now: float, trouble: str) -> Files:
    """Fetch nothing for a while, since the disk refused a file; that is no try of the file."""
    waits = Waits(state.rules.retry_shortest, min(state.rules.retry_longest, _ROOM_SECONDS))
    later = tried(state.files.starved, now, waits, state.identity.boot, digest)
    return replace(state.files, fetching=None, littered=True, starved=later, trouble=trouble)


def install_due(state: AgentState, now: float) -> AgentDecision:
    """Install when all files are here and it is the hour for it; one thing at a time."""
    action, models = _installable(state), state.models
    if action is None:
        return NOTHING_TO_DO
    if not _switches(state, action) or action.hours is None:
        return _install(state, action)
    if models.asking_clock or now < models.clock_due:
        return NOTHING_TO_DO
    return change(replace(models, asking_clock=True)) + ask(ReadLocalClock())


def clock_read(state: AgentState, event: inputs.LocalClockRead, now: float) -> AgentDecision:
    """Switch in the hours that are given; ask again later outside them.

    That is soon enough to notice that somebody has set the clock.
    """
    action = _installable(state)
    if action is None or action.hours is None or not _switches(state, action):
        return change(replace(state.models, asking_clock=False))
    if action.hours.has(event.minute):
        return _install(state, action)
    until = 60.0 * ((action.hours.begins - event.minute) % _MINUTES_OF_A_DAY)
    later = now + min(until, _CLOCK_SECONDS)
    return change(replace(state.models, asking_clock=False, clock_due=later))


def waits_for_hours(state: AgentState) -> bool:
    """Whether only the hour keeps a desired model from being switched to."""
    action = open_action(state)
    if action is None or action.hours is None or not _switches(state, action):
        return False
    return _is_here(state, action)


def _installable(state: AgentState) -> DesiredModel | None:
    """Return the open action if nothing but time may keep it from being installed."""
    action, models = open_action(state), state.models
    if action is None or models.installing is not None or models.evaluating:
        return None
    return action if _is_here(state, action) else None


def _is_here(state: AgentState, action: DesiredModel) -> bool:
    return needed_digests(state, action) <= state.files.here and _files_are_known(state, action)


def _switches(state: AgentState, action: DesiredModel) -> bool:
    """Whether another model runs after it."""
    return action.mode != "shadow" and not _runs(state, action)


def _runs(state: AgentState, action: DesiredModel) -> bool:
    active = state.models.active
    return active is not None and active.manifest == action.manifest.digest


def _install(state: AgentState, action: DesiredModel) -> AgentDecision:
    check = releases.check_of(state)
    # What runs already needs no place beside it.
    shadows = action.mode == "shadow" and not _runs(state, action)
    variant = variants.chosen_name(state, action)
    put = (ShadowModel if shadows else InstallModel)(action, check, variant)
    return change(replace(state.models, installing=action, asking_clock=False)) + ask(put)


def model_installed(state: AgentState, event: inputs.ModelInstalled, now: float) -> AgentDecision:
    """Say that the model runs, and measure it."""
    action = state.models.installing
    models = ModelProgress(
        active=event.active,
        variant=event.variant,
        evaluate=state.rules.evaluates,
        settling_since=now,
    )
    compares = comparison.wanted(state.records, action, "run", event.active, event.former)
    status = ModelStatus(
        version=event.active.version,
        manifest=event.active.manifest,
        state="active",
        previous_version=event.previous_version,
        variant=event.variant,
    )
    released = () if event.release is None else (Put(release=event.release),)
    return change(
        models,
        action_ended(event.action, status),
        *released,
        *(compares if action == state.records.desired else ()),
        *settling.begun(state, action, event, now),
        replace(state.detecting, settled=False),
        replace(state.told, status=False),
        replace(state.files, littered=True),
    )


def model_refused(state: AgentState, event: inputs.ModelRefused, _now: float) -> AgentDecision:
    """Keep the former model, and tell the coordinator why."""
    models = state.models
    refused = open_action(state) if models.reading else models.installing
    if refused is None or refused.action != event.action:
        # What was overtaken while its manifest was read has no end of its own.
        return change(replace(models, reading=False)) if models.reading else NOTHING_TO_DO
    outcome = "rolled_back" if event.rolled_back else "failed"
    files = replace(state.files, littered=True)
    return change(files) + ended(state, refused, outcome, event.reason)


def model_fell_back(state: AgentState, event: inputs.ModelFellBack, _now: float) -> AgentDecision:
    """Report that the active model failed at start and the other slot took over."""
    status = _status(event.failed.version, event.failed.manifest, "rolled_back", event.reason)
    evaluate = state.rules.evaluates and event.active is not None
    return change(
        replace(state.models, active=event.active, variant=event.variant, evaluate=evaluate),
        action_ended(None, status),
        Put(settling=None),
        replace(state.told, status=False),
    )


def ended(state: AgentState, action: DesiredModel, outcome: str, reason: str) -> AgentDecision:
    """Bring a desired model to an end without it, and report why."""
    status = _status(action.version, action.manifest.digest, outcome, reason)
    changes: tuple[Change, ...] = (
        action_ended(action.action, status),
        replace(state.models, installing=None, reading=False),
        replace(state.told, status=False),
    )
    return AgentDecision(changes)


def _status(version: int, manifest: Digest, outcome: str, reason: str) -> ModelStatus:
    return ModelStatus.model_validate(
        {"version": version, "manifest": manifest, "state": outcome, "reason": reason[:500]}
    )


def evaluation_asked(
    state: AgentState, _event: inputs.EvaluationAsked, _now: float
) -> AgentDecision:
    """Evaluate again, if there is something to evaluate on."""
    return change(replace(state.models, evaluate=state.rules.evaluates))


def evaluation_due(state: AgentState, _now: float) -> AgentDecision:
    """Evaluate after every switch, and when asked."""
    models = state.models
    if not models.evaluate or models.active is None:
        return NOTHING_TO_DO
    if models.evaluating or models.installing is not None:
        return NOTHING_TO_DO
    known = state.records.detector.head
    desired = state.records.desired
    lacks = () if desired is None or desired.version != models.active.version else desired.lacks
    evaluate = Evaluate(models.active, state.rules.detection, known, lacks)
    return change(replace(models, evaluate=False, evaluating=True)) + ask(evaluate)


def evaluated(state: AgentState, event: inputs.Evaluated, _now: float) -> AgentDecision:
    """Keep the result, to tell it after this and every later welcome."""
    models = replace(state.models, evaluating=False, unmeasured=event.reason)
    told = recovered(state.told, [state.models.unmeasured])
    decision = change(models) + detection.seed(state, event)
    if event.evaluation is None:
        if not event.reason:
            return decision + change(told)
        return decision + change(
            report_problems(told, [problem("evaluation", event.reason)], state.rules)
        )
    return decision + change(model_evaluated(event.evaluation), replace(told, evaluation=False))


def model_evaluated(found: Evaluation) -> Durable:
    """Keep an evaluation of the active model, and log how well it does here."""
    version = found.version
    correct = sum(result.correct for result in found.results.values())
    total = sum(result.total for result in found.results.values())
    text = f"model {version} was right for {correct} of {count_of(total, 'held-out sample')}"
    fields = {"version": version, "correct": correct, "total": total}
    return Put(Line("model.measured", text, fields), evaluation=found)


def cleaning_due(state: AgentState, _now: float) -> AgentDecision:
    """Remove what nothing needs, while nobody is writing or reading files."""
    files = state.files
    busy = (
        state.work.job is not None
        or state.training.job is not None
        or state.cohorts.job is not None
        or state.models.installing
        or state.models.evaluating
    )
    if not files.littered or busy or files.fetching is not None or open_action(state):
        return NOTHING_TO_DO
    if state.records.assignment is None and state.records.desired is None:
        return NOTHING_TO_DO
    keep = files_to_keep(state.records)
    return change(replace(files, littered=False)) + ask(CleanFiles(keep))


def files_to_keep(records: AgentRecords) -> frozenset[Digest]:
    """Return what work, messages, memory and an open action need, beside what the slots name."""
    offers = records.assignment.offers if records.assignment is not None else ()
    messages = (message.body for message in records.outbox.values())
    payloads = {
        body.payload for body in messages if isinstance(body, Contribution | PrototypeGradients)
    }
    memory = {records.memory} if records.memory is not None else set()
    action = _open_action(records)
    wanted = digests_of(action) if action is not None else set()
    ready = {part.payload for part in records.ready.values()}
    hidden = {part.payload for part in records.hidden.values()}
    payloads |= {payload for payload in ready | hidden if payload is not None}
    return frozenset({*(offer.digest for offer in offers), *payloads, *memory, *wanted})


def files_listed(state: AgentState, event: inputs.FilesListed, _now: float) -> AgentDecision:
    """Know what is left after a cleaning."""
    return change(replace(state.files, here=event.files))
