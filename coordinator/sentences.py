"""One sentence for each kind of entry: what `fleetledger ledger show` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError

from coordinator.core import entries
from coordinator.key_sentences import (
    device_doubled,
    device_enrolled,
    device_invited,
    device_key_revoked,
    device_key_rotated,
    device_settled,
)
from coordinator.ledger.describe import Sentence, listed
from coordinator.ledger.entries import Entry
from coordinator.release_sentences import release_signed, root_published
from coordinator.round_sentences import (
    files,
    names_of,
    old_model_chosen,
    old_model_missed,
    round_closed,
    round_failed,
    round_opened,
    rounds_resumed,
    rounds_stopped,
    weights_averaged,
    weights_pruned,
)
from coordinator.time_sentences import clock_corrected, devices_heard, devices_silent
from schemas.rounds import Observation, RoundAnswer

Body = TypeVar("Body", bound=entries.EntryBody)


def _device_admitted(body: entries.DeviceAdmitted, _: Entry) -> str:
    return f"Device {body.device} may take part from here on."


def _device_born(body: entries.DeviceBorn, entry: Entry) -> str:
    able = body.capabilities
    torch = "torch" if "torch" in able.features else "no torch, so that it trains no network"
    return (
        f"Device {entry.device} connected (boot {body.boot}): {able.machine}, Python "
        f"{able.python}, ONNX Runtime provider {able.provider or 'none'}, {torch}."
    )


def _backbone_imported(body: entries.BackboneImported, _: Entry) -> str:
    return (
        f"Frozen model {body.frozen.digest.short} ({body.name}) leads: {body.backbone_width} "
        f"backbone features become {body.feature_width}, learned with {body.method}."
    )


def _network_imported(body: entries.NetworkImported, _: Entry) -> str:
    after = ""
    if body.successor is not None:
        after = f" After its first stage it freezes, and {body.successor.method} goes on with it."
    pixels = " It gives every pixel a class, or the background." if body.segments else ""
    proxy = " A proxy scores what comes of it and chooses old models." if body.proxy else ""
    what = "it whole"
    if body.base is not None:
        what = f"it, all but the tensors in {body.base.digest.short}"
    elif (seen := body.backbone) is not None:
        what = (
            f"it on the {seen.feature_width} features of frozen model {seen.frozen.digest.short} "
            f"({seen.name})"
        )
    return (
        f"Network {body.digest.short} ({body.name}) leads: devices train {what}, in "
        f"rounds, with {body.method}.{pixels}{_phases(body)}{_begins(body)}{after}{proxy}"
    )


def _phases(body: entries.NetworkImported) -> str:
    """Say what devices are asked to do, where that is more than to train."""
    several = ", then ".join(body.round_phases)
    said = f" A round has the phases {several}." if len(body.round_phases) > 1 else ""
    if body.opening_phases:
        said += f" Before a stage's rounds: {names_of(body.opening_phases)}."
    if body.closing_phases:
        said += f" After them: {names_of(body.closing_phases)}."
    return said


def _begins(body: entries.NetworkImported) -> str:
    """Say what the operator gave to begin with."""
    said = ""
    if body.class_names:
        rounds = ", which need no rounds" if body.first_weights_suffice else ""
        said = f" Its first weights know {names_of(body.class_names)}{rounds}."
    return said + (f" Every device gets {files(body.extras)}." if body.extras else "")


def _class_named(body: entries.ClassNamed, _: Entry) -> str:
    return f"Class {body.name} has index {body.index}, for good."


def _class_renamed(body: entries.ClassRenamed, _: Entry) -> str:
    return f"Class {body.old} is called {body.new}; the old name still works on the devices."


def _class_merged(body: entries.ClassMerged, _: Entry) -> str:
    return f"{body.source} is another name of class {body.target}; their samples count together."


def _stage_opened(body: entries.StageOpened, _: Entry) -> str:
    because = "" if body.reason == entries.OPERATOR else f" It was opened by {body.reason}."
    return f"Stage {body.stage} asks the fleet to learn {names_of(body.class_names)}.{because}"


def _stage_closed(body: entries.StageClosed, _: Entry) -> str:
    late = "" if body.reason.endswith(" rounds") else " Late contributions still count."
    return (
        f"Stage {body.stage} closed because of {body.reason}: {body.answered} of {body.expected} "
        f"devices answered.{late}"
    )


def _contribution_accepted(body: entries.ContributionAccepted, entry: Entry) -> str:
    samples = sum(body.samples.values())
    if body.round is not None:
        late = " It came late and is left out." if body.late else ""
        return (
            f"Device {entry.device} answered round {body.round} with {body.payload_kind} learned "
            f"from {samples} samples ({body.payload_bytes} bytes).{late}{_saw_before(body.answer)}"
        )
    instead = f" It replaces entry {body.replaces}." if body.replaces is not None else ""
    return (
        f"Device {entry.device} gave {body.payload_kind} of {samples} samples "
        f"({body.payload_bytes} bytes) as part {body.key.part} of stage {body.key.stage}, "
        f"revision {body.revision}.{instead}"
    )


def _contribution_withdrawn(body: entries.ContributionWithdrawn, entry: Entry) -> str:
    return (
        f"Device {entry.device} took part {body.key.part} of stage {body.key.stage} out again: "
        f"{body.reason}."
    )


def _contribution_retracted(body: entries.ContributionRetracted, _: Entry) -> str:
    return (
        f"The operator took part {body.key.part} of stage {body.key.stage} of device {body.device} "
        f"out of the sum, for good: {body.reason}. It was entry {body.replaces}; the part, and its "
        f"payload {body.payload.short} under any other number, are refused from here on."
    )


def _contributions_left_out(body: entries.ContributionsLeftOut, _: Entry) -> str:
    if not body.left_out:
        return "All contributions that are held count again."
    told = "; ".join(body.devices.values())
    return f"{len(body.left_out)} contributions are left out of the sum for now: {told}."


def _descent_marked(body: entries.DescentMarked, _: Entry) -> str:
    versions = ", ".join(map(str, body.versions)) or "none so far"
    before = (
        "no model is from before it"
        if body.last_version is None
        else f"model {body.last_version} is the last from before it"
    )
    rounds = ", ".join(map(str, body.rounds))
    means = f"mean of round {rounds}, which stays as it is"
    if len(body.rounds) > 1:
        means = f"means of rounds {rounds}, which stay as they are"
    again = f"{body.rounds_again} round{'s' if body.rounds_again > 1 else ''}"
    return (
        f"The operator retracted answers of device {body.device}: {body.reason}. They are in the "
        f"{means}. Models that descend from them: {versions}, and those to come; {before}. To be "
        f"without them, {again} would have to be run again, from before entry {body.first_index}."
    )


def _nothing_reported(body: entries.NothingReported, entry: Entry) -> str:
    what = f"stage {body.stage}" if body.round is None else f"round {body.round}"
    if body.observation is not None:
        return (
            f"Device {entry.device} trained on nothing in {what} and looked at its images with the "
            f"fleet's network: {_saw(body.observation)}."
        )
    if body.reason:
        did = "gives nothing for" if body.round is None else "could not train in"
        if body.round is not None and body.reason.startswith("policy."):
            did = "declines"
        return f"Device {entry.device} {did} {what}: {body.reason}."
    return f"Device {entry.device} has nothing for {what}."


def _saw_before(answer: RoundAnswer | None) -> str:
    if answer is None or answer.observation is None:
        return ""
    return f" Before it trained it looked at its images: {_saw(answer.observation)}."


def _saw(seen: Observation) -> str:
    task = "takes them for a new task" if seen.transition else "sees no new task"
    return f"mean entropy {seen.entropy:.3f} nats over {seen.images} images, and {task}"


def _transition_reported(body: entries.TransitionReported, entry: Entry) -> str:
    if body.why == "class name":
        return f"Device {entry.device} has samples of new classes: {names_of(tuple(body.classes))}."
    seen = body.uncertainty
    assert seen is not None
    classes = f" It also has folders for {names_of(tuple(body.classes))}." if body.classes else ""
    return (
        f"Device {entry.device} is less sure of new samples than before: {seen.value:.3f} over "
        f"{seen.images} of them under model {seen.model_version}, {seen.baseline:.3f} so far."
        f"{classes}"
    )


def _temperature_fitted(body: entries.TemperatureFitted, _: Entry) -> str:
    return (
        f"The next models multiply scores by {body.logit_scale:.4g} before the softmax: the best "
        f"for {body.images} held-out samples of {body.devices} devices under model {body.version}."
    )


def _model_solved(body: entries.ModelSolved, _: Entry) -> str:
    return (
        f"Model {body.version} for {names_of(body.class_names)} was solved with {body.method} from "
        f"{len(body.inputs)} contributions in {body.seconds:.2f} s; their sum has the digest "
        f"{body.aggregate.short}."
        + "".join(f" Note: {remark}." for remark in body.remarks)
        + (
            f" It descends from retracted answers of {names_of(body.descends)}."
            if body.descends
            else ""
        )
    )


def _model_exported(body: entries.ModelExported, _: Entry) -> str:
    parity = body.parity
    return (
        f"Model {body.version} became ONNX: manifest {body.manifest.digest.short}, scores within "
        f"{parity.max_absolute_difference:.2g} of the coordinator's own in {parity.runtime}."
    )


def _model_failed(body: entries.ModelFailed, _: Entry) -> str:
    return f"No model could be made from {len(body.inputs)} contributions: {body.reason}."


def _model_desired(body: entries.ModelDesired, _: Entry) -> str:
    whom = names_of(body.devices) if body.devices else "every device"
    return f"Model {body.version} is to run on {whom}: {body.reason}."


def _models_held(body: entries.ModelsHeld, _: Entry) -> str:
    if body.held:
        return "New models wait for the operator to push them."
    return "New models go out by themselves again."


def _device_model_status(body: entries.DeviceModelStatus, entry: Entry) -> str:
    reason = f": {body.reason}" if body.reason else ""
    state = body.state.replace("_", " ")
    return f"On device {entry.device} model {body.version} is {state}{reason}."


def _device_evaluated(body: entries.DeviceEvaluated, entry: Entry) -> str:
    if body.answers == "pixels":
        return _mean_iou(body, entry)
    right = sum(result.correct for result in body.results.values())
    asked = sum(result.total for result in body.results.values())
    return (
        f"On device {entry.device} model {body.version} was right for {right} of {asked} held-out "
        f"samples ({body.provider})."
    )


def _mean_iou(body: entries.DeviceEvaluated, entry: Entry) -> str:
    shares = [result.correct / result.total for result in body.results.values()]
    mean = 100 * sum(shares) / max(len(shares), 1)
    return (
        f"On device {entry.device} model {body.version} has a mean IoU of {mean:.1f} % on the "
        f"pixels of held-out pictures, over {len(shares)} classes with the background "
        f"({body.provider})."
    )


def _device_problem(body: entries.DeviceProblem, entry: Entry) -> str:
    return f"Device {entry.device} reports a problem with {body.about}: {body.text}"


def _command_done(body: entries.CommandDone, _: Entry) -> str:
    return f"A command of the operator was carried out: {body.text}."


def _sentence(kind: type[Body], say: Callable[[Body, Entry], str]) -> tuple[str, Sentence]:
    def sentence(entry: Entry) -> str:
        try:
            body = kind.model_validate(entry.body)
        except ValidationError:
            return listed(entry)  # written by another version of this program
        return say(body, entry)

    return kind.kind, sentence


SENTENCES: dict[str, Sentence] = dict(
    (
        _sentence(entries.DeviceAdmitted, _device_admitted),
        _sentence(entries.DeviceInvited, device_invited),
        _sentence(entries.DeviceEnrolled, device_enrolled),
        _sentence(entries.DeviceKeyRotated, device_key_rotated),
        _sentence(entries.DeviceKeyRevoked, device_key_revoked),
        _sentence(entries.DeviceBorn, _device_born),
        _sentence(entries.DeviceDoubled, device_doubled),
        _sentence(entries.DeviceSettled, device_settled),
        _sentence(entries.BackboneImported, _backbone_imported),
        _sentence(entries.NetworkImported, _network_imported),
        _sentence(entries.ClassNamed, _class_named),
        _sentence(entries.ClassRenamed, _class_renamed),
        _sentence(entries.ClassMerged, _class_merged),
        _sentence(entries.StageOpened, _stage_opened),
        _sentence(entries.StageClosed, _stage_closed),
        _sentence(entries.ContributionAccepted, _contribution_accepted),
        _sentence(entries.ContributionWithdrawn, _contribution_withdrawn),
        _sentence(entries.ContributionRetracted, _contribution_retracted),
        _sentence(entries.ContributionsLeftOut, _contributions_left_out),
        _sentence(entries.DescentMarked, _descent_marked),
        _sentence(entries.NothingReported, _nothing_reported),
        _sentence(entries.RoundOpened, round_opened),
        _sentence(entries.RoundClosed, round_closed),
        _sentence(entries.WeightsAveraged, weights_averaged),
        _sentence(entries.WeightsPruned, weights_pruned),
        _sentence(entries.RoundFailed, round_failed),
        _sentence(entries.ClockCorrected, clock_corrected),
        _sentence(entries.DevicesSilent, devices_silent),
        _sentence(entries.DevicesHeard, devices_heard),
        _sentence(entries.RoundsStopped, rounds_stopped),
        _sentence(entries.RoundsResumed, rounds_resumed),
        _sentence(entries.OldModelChosen, old_model_chosen),
        _sentence(entries.OldModelMissed, old_model_missed),
        _sentence(entries.TransitionReported, _transition_reported),
        _sentence(entries.TemperatureFitted, _temperature_fitted),
        _sentence(entries.ModelSolved, _model_solved),
        _sentence(entries.ModelExported, _model_exported),
        _sentence(entries.ModelFailed, _model_failed),
        _sentence(entries.ModelDesired, _model_desired),
        _sentence(entries.ModelsHeld, _models_held),
        _sentence(entries.RootPublished, root_published),
        _sentence(entries.ReleaseSigned, release_signed),
        _sentence(entries.DeviceModelStatus, _device_model_status),
        _sentence(entries.DeviceEvaluated, _device_evaluated),
        _sentence(entries.DeviceProblem, _device_problem),
        _sentence(entries.CommandDone, _command_done),
    )
)
"""Kind of entry to the function that says it."""
