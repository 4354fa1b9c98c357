"""How each kind of entry changes the state; `apply` is the only function that does.

It changes the state in place, because a copy for every entry would cost as much as the fleet is
large.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from coordinator.core import entries
from coordinator.core.descent import Span
from coordinator.core.device_transitions import (
    device_admitted,
    device_born,
    device_doubled,
    device_enrolled,
    device_invited,
    device_key_revoked,
    device_key_rotated,
    device_settled,
)
from coordinator.core.fleet_models import after_push, after_return
from coordinator.core.records import (
    Answered,
    Counted,
    Desired,
    Device,
    Losses,
    Made,
    Model,
    OldModels,
    Part,
    Reported,
    Round,
    RoundAnswered,
    Stage,
    VoidRun,
    Weights,
)
from coordinator.core.release_transitions import release_signed, root_published
from coordinator.core.retraction_transitions import (
    contribution_retracted,
    contribution_withdrawn,
    descent_marked,
    note_mean,
    parent_span,
)
from coordinator.core.round_entries import MAX_REFUSAL
from coordinator.core.state import State
from coordinator.core.time_transitions import clock_corrected, devices_heard, devices_silent
from schemas.contributions import PartKey
from schemas.values import DeviceId

_MAX_NAMED = 1000
"""New class names kept of one device; the rest are in the ledger only."""


def apply(
    state: State, body: entries.EntryBody, device: DeviceId | None = None, time_ns: int = 0
) -> None:
    """Take in the next entry; its index is `state.size`, `device` made it, if a device did."""
    _TRANSITIONS[type(body)](state, body, device, time_ns)
    state.size += 1


def _backbone_imported(
    state: State, body: entries.BackboneImported, _device: DeviceId | None, time_ns: int
) -> None:
    if state.network is not None and state.open_stage is not None:
        state.stages[state.open_stage].opened_ns = time_ns
    _begin_lineage(state, body, parent_span(state, body))
    state.weights = None


def _network_imported(
    state: State, body: entries.NetworkImported, _device: DeviceId | None, _time_ns: int
) -> None:
    _begin_lineage(state, body)
    state.had_proxy |= body.proxy
    state.weights = Weights(body.weights, body.class_names, state.size, dict(body.extras))


def _begin_lineage(state: State, body: entries.Lineage, parent: int | None = None) -> None:
    state.descent.spans.append(Span(state.size, parent))
    state.lineage = body
    state.assignment_action = state.size
    state.logit_scale = state.calibrated_version = None
    state.calibration.clear()
    state.rounds.clear()
    state.void = VoidRun()
    state.former_made.update(state.made)
    state.made.clear()
    state.old_models = OldModels()


def _class_named(
    state: State, body: entries.ClassNamed, _device: DeviceId | None, _time_ns: int
) -> None:
    state.classes.name(body.name, body.index)
    state.assignment_action = state.size


def _class_renamed(
    state: State, body: entries.ClassRenamed, _device: DeviceId | None, _time_ns: int
) -> None:
    state.classes.rename(body.old, body.new)
    state.assignment_action = state.size


def _class_merged(
    state: State, body: entries.ClassMerged, _device: DeviceId | None, _time_ns: int
) -> None:
    state.classes.merge(body.source, body.target)
    state.assignment_action = state.size


def _stage_opened(
    state: State, body: entries.StageOpened, _device: DeviceId | None, time_ns: int
) -> None:
    state.stages[body.stage] = Stage(state.size, time_ns, body.class_names)
    state.void = VoidRun()
    state.assignment_action = state.size
    for record in state.devices.values():
        record.doubts = None
        for name in body.class_names:
            record.named.pop(name, None)


def _stage_closed(
    state: State, body: entries.StageClosed, _device: DeviceId | None, _time_ns: int
) -> None:
    state.stages[body.stage].closed_index = state.size
    state.void = VoidRun()


def _contribution_accepted(
    state: State, body: entries.ContributionAccepted, device: DeviceId | None, time_ns: int
) -> None:
    if body.round is not None:
        _round_answered(state, body, device)
        return
    record = _known(state, device)
    if body.replaces is not None:
        state.counted.take_out(body.replaces)
    record.parts[body.key] = Part(state.size, body.revision, body.payload)
    assert device is not None
    state.counted.put(
        state.size,
        Counted(device, body.key, body.payload, body.lineage, dict(body.samples)),
    )
    _note_answer(state, body.key.stage, time_ns)


def _contributions_left_out(
    state: State, body: entries.ContributionsLeftOut, _device: DeviceId | None, _time_ns: int
) -> None:
    state.left_out = frozenset(body.left_out)


def _round_answered(
    state: State, body: entries.ContributionAccepted, device: DeviceId | None
) -> None:
    assert device is not None
    assert body.round is not None
    _known(state, device).answers[body.round] = Answered(state.size, body.payload)
    if not body.late:
        answer = RoundAnswered(state.size, body.payload, sum(body.samples.values()))
        state.rounds[body.round].answers[device] = answer


def _nothing_reported(
    state: State, body: entries.NothingReported, device: DeviceId | None, time_ns: int
) -> None:
    record = _known(state, device)
    if body.round is None:
        record.nothing[body.stage] = state.size
        _note_answer(state, body.stage, time_ns)
        return
    assert device is not None
    record.answers[body.round] = Answered(state.size, None)
    current = state.rounds.get(body.round)
    if current is None or current.closed is not None:
        return
    if device in current.observers:
        current.looked.add(device)
    elif body.reason:
        current.unable[device] = sys.intern(body.reason[:MAX_REFUSAL])  # many say the same
    else:
        current.nothing.add(device)


def _round_opened(
    state: State, body: entries.RoundOpened, _device: DeviceId | None, time_ns: int
) -> None:
    state.rounds[body.number] = Round(body, state.size, time_ns, state.weights)
    state.last_round = body.number
    for device in (*body.cohort, *body.observers):
        state.devices[device].order_action = state.size


def _round_closed(
    state: State, body: entries.RoundClosed, _device: DeviceId | None, time_ns: int
) -> None:
    current = state.rounds[body.number]
    current.closed = body
    current.ended_ns, current.ended_index = time_ns, state.size
    for device in current.unheard:
        state.devices[device].order_action = state.size
    if not body.counted:
        _begin_again(state, current)


def _weights_averaged(
    state: State, body: entries.WeightsAveraged, _device: DeviceId | None, time_ns: int
) -> None:
    current = state.rounds[body.number]
    current.averaged = True
    state.void.went_on(current)
    note_mean(state, body)
    state.weights = Weights(
        body.weights, body.class_names, state.size, dict(body.extras), body, time_ns
    )
    state.made[body.number] = Made(body.number, state.size, body.weights, body.blobs)
    state.pruned.difference_update(body.blobs)


def _weights_pruned(
    state: State, body: entries.WeightsPruned, _device: DeviceId | None, _time_ns: int
) -> None:
    state.pruned.update(body.digests)
    for number in body.numbers:
        state.former_made.pop(number, None)


def _round_failed(
    state: State, body: entries.RoundFailed, _device: DeviceId | None, time_ns: int
) -> None:
    current = state.rounds[body.number]
    current.failed = body.reason
    current.ended_ns, current.ended_index = time_ns, state.size
    _begin_again(state, current)


def _rounds_stopped(
    state: State, body: entries.RoundsStopped, _device: DeviceId | None, _time_ns: int
) -> None:
    state.void.stopped, state.void.stopped_index = body, state.size


def _rounds_resumed(
    state: State, body: entries.RoundsResumed, _device: DeviceId | None, _time_ns: int
) -> None:
    rounds = [] if body.anew else state.void.rounds
    state.void = VoidRun(rounds, weighed=len(rounds))


def _begin_again(state: State, current: Round) -> None:
    """Go back to what a round began with, one of whose phases came to nothing."""
    if current.opened.stage == state.open_stage:
        state.void.rounds.append(current)
    if current.opened.follows is not None:
        state.weights = state.first_of(current).weights


def _old_model_chosen(
    state: State, body: entries.OldModelChosen, _device: DeviceId | None, _time_ns: int
) -> None:
    known = state.old_models
    known.chosen, known.chosen_index = body, state.size
    known.settled = max(known.settled, body.action)


def _old_model_missed(
    state: State, body: entries.OldModelMissed, _device: DeviceId | None, _time_ns: int
) -> None:
    state.old_models.settled = body.action


def _transition_reported(
    state: State, body: entries.TransitionReported, device: DeviceId | None, time_ns: int
) -> None:
    record = _known(state, device)
    key = PartKey(stage=body.stage, part=body.number)
    record.transitions[key] = Reported(state.size, body.content)
    for name, images in body.classes.items():
        if name in record.named or len(record.named) < _MAX_NAMED:
            record.named[name] = images
    if body.why == "entropy":
        record.doubts = state.size
    state.last_report_ns = time_ns


def _temperature_fitted(
    state: State, body: entries.TemperatureFitted, _device: DeviceId | None, _time_ns: int
) -> None:
    state.logit_scale = body.logit_scale


def _model_solved(
    state: State, body: entries.ModelSolved, _device: DeviceId | None, time_ns: int
) -> None:
    assert state.lineage is not None
    state.models[body.version] = Model(body, state.size, time_ns, state.lineage)
    state.failed = None


def _model_exported(
    state: State, body: entries.ModelExported, _device: DeviceId | None, _time_ns: int
) -> None:
    state.models[body.version].exported = body


def _model_failed(
    state: State, body: entries.ModelFailed, _device: DeviceId | None, _time_ns: int
) -> None:
    state.failed = body


def _model_desired(
    state: State, body: entries.ModelDesired, _device: DeviceId | None, _time_ns: int
) -> None:
    desired = Desired(body.version, state.size, body.devices, body.spares)
    if body.devices is None:
        state.desired = desired
        if not body.spares:
            state.desired_by_device.clear()
        step = after_return if body.goes_back else after_push
        state.fleet_models = step(state.fleet_models, body.version)
    else:
        state.desired_by_device.update(dict.fromkeys(body.devices, desired))


def _models_held(
    state: State, body: entries.ModelsHeld, _device: DeviceId | None, _time_ns: int
) -> None:
    state.held = body.held


def _device_model_status(
    state: State, body: entries.DeviceModelStatus, device: DeviceId | None, _time_ns: int
) -> None:
    record = _known(state, device)
    record.model_state, record.model_reason = body.state, body.reason
    record.model_versions_seen[body.version] = body.state
    if body.state == "active":
        record.active_version = body.version


def _device_evaluated(
    state: State, body: entries.DeviceEvaluated, device: DeviceId | None, _time_ns: int
) -> None:
    assert device is not None
    _known(state, device).evaluated_version = body.version
    if body.answers == "pixels":
        return  # totals are pixels, and no temperature is fitted on these
    model = state.models.get(body.version)
    newest = state.calibrated_version or 0
    if not body.losses or model is None or model.lineage != state.lineage or body.version < newest:
        return
    if body.version > newest:
        state.calibrated_version = body.version
        state.calibration.clear()
    images = sum(result.total for result in body.results.values())
    state.calibration[device] = Losses(images, body.losses)


def _device_problem(
    _state: State, _body: entries.DeviceProblem, _device: DeviceId | None, _time_ns: int
) -> None:
    """Problems are for people; they change nothing that is decided."""


def _command_done(
    state: State, body: entries.CommandDone, _device: DeviceId | None, _time_ns: int
) -> None:
    state.commands[body.ticket] = body.text


def _known(state: State, device: DeviceId | None) -> Device:
    assert device is not None
    return state.devices[device]


def _note_answer(state: State, stage: int, time_ns: int) -> None:
    state.stages[stage].last_answer_ns = time_ns


# Each function takes the body type under which it is listed; one table cannot say so in types.
_TRANSITIONS: dict[type[entries.EntryBody], Callable[..., None]] = {
    entries.DeviceAdmitted: device_admitted,
    entries.DeviceInvited: device_invited,
    entries.DeviceEnrolled: device_enrolled,
    entries.DeviceKeyRotated: device_key_rotated,
    entries.DeviceKeyRevoked: device_key_revoked,
    entries.DeviceBorn: device_born,
    entries.DeviceDoubled: device_doubled,
    entries.DeviceSettled: device_settled,
    entries.BackboneImported: _backbone_imported,
    entries.NetworkImported: _network_imported,
    entries.ClassNamed: _class_named,
    entries.ClassRenamed: _class_renamed,
    entries.ClassMerged: _class_merged,
    entries.StageOpened: _stage_opened,
    entries.StageClosed: _stage_closed,
    entries.ContributionAccepted: _contribution_accepted,
    entries.ContributionWithdrawn: contribution_withdrawn,
    entries.ContributionRetracted: contribution_retracted,
    entries.ContributionsLeftOut: _contributions_left_out,
    entries.DescentMarked: descent_marked,
    entries.NothingReported: _nothing_reported,
    entries.RoundOpened: _round_opened,
    entries.RoundClosed: _round_closed,
    entries.WeightsAveraged: _weights_averaged,
    entries.WeightsPruned: _weights_pruned,
    entries.RoundFailed: _round_failed,
    entries.ClockCorrected: clock_corrected,
    entries.DevicesSilent: devices_silent,
    entries.DevicesHeard: devices_heard,
    entries.RoundsStopped: _rounds_stopped,
    entries.RoundsResumed: _rounds_resumed,
    entries.OldModelChosen: _old_model_chosen,
    entries.OldModelMissed: _old_model_missed,
    entries.TransitionReported: _transition_reported,
    entries.TemperatureFitted: _temperature_fitted,
    entries.ModelSolved: _model_solved,
    entries.ModelExported: _model_exported,
    entries.ModelFailed: _model_failed,
    entries.ModelDesired: _model_desired,
    entries.ModelsHeld: _models_held,
    entries.RootPublished: root_published,
    entries.ReleaseSigned: release_signed,
    entries.DeviceModelStatus: _device_model_status,
    entries.DeviceEvaluated: _device_evaluated,
    entries.DeviceProblem: _device_problem,
    entries.CommandDone: _command_done,
}
