"""One sentence for each kind of entry: what `fleetledger ledger show` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from coordinator.core import entries
from coordinator.ledger.describe import Sentence, listed
from coordinator.ledger.entries import Entry
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
        f"rounds, with {body.method}.{after}{proxy}"
    )


def _class_named(body: entries.ClassNamed, _: Entry) -> str:
    return f"Class {body.name} has index {body.index}, for good."


def _class_renamed(body: entries.ClassRenamed, _: Entry) -> str:
    return f"Class {body.old} is called {body.new}; the old name still works on the devices."


def _class_merged(body: entries.ClassMerged, _: Entry) -> str:
    return f"{body.source} is another name of class {body.target}; their images count together."


def _stage_opened(body: entries.StageOpened, _: Entry) -> str:
    because = "" if body.reason == entries.OPERATOR else f" It was opened by {body.reason}."
    return f"Stage {body.stage} asks the fleet to learn {_names(body.class_names)}.{because}"


def _stage_closed(body: entries.StageClosed, _: Entry) -> str:
    late = "" if body.reason.endswith(" rounds") else " Late contributions still count."
    return (
        f"Stage {body.stage} closed because of {body.reason}: {body.answered} of {body.expected} "
        f"devices answered.{late}"
    )


def _contribution_accepted(body: entries.ContributionAccepted, entry: Entry) -> str:
    images = sum(body.samples.values())
    if body.round is not None:
        late = " It came late and is left out." if body.late else ""
        return (
            f"Device {entry.device} answered round {body.round} with {body.payload_kind} learned "
            f"from {images} images ({body.payload_bytes} bytes).{late}{_saw_before(body.answer)}"
        )
    instead = f" It replaces entry {body.replaces}." if body.replaces is not None else ""
    return (
        f"Device {entry.device} gave {body.payload_kind} of {images} images "
        f"({body.payload_bytes} bytes) as part {body.key.part} of stage {body.key.stage}, "
        f"revision {body.revision}.{instead}"
    )


def _contribution_withdrawn(body: entries.ContributionWithdrawn, entry: Entry) -> str:
    return (
        f"Device {entry.device} took part {body.key.part} of stage {body.key.stage} out again: "
        f"{body.reason}."
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
        return f"Device {entry.device} {did} {what}: {body.reason}."
    return f"Device {entry.device} has nothing for {what}."


def _saw_before(answer: RoundAnswer | None) -> str:
    if answer is None or answer.observation is None:
        return ""
    return f" Before it trained it looked at its images: {_saw(answer.observation)}."


def _saw(seen: Observation) -> str:
    task = "takes them for a new task" if seen.transition else "sees no new task"
    return f"mean entropy {seen.entropy:.3f} nats over {seen.images} images, and {task}"


def _round_opened(body: entries.RoundOpened, _: Entry) -> str:
    looking = f" Only looking at images: {_names(body.observers)}." if body.observers else ""
    return (
        f"Round {body.number} (stage {body.stage}, {body.round_of_stage} of "
        f"{body.rounds_of_stage}) asks {_names(body.cohort)} to {body.phase} from weights "
        f"{body.weights.digest.short}.{looking}"
    )


def _round_closed(body: entries.RoundClosed, _: Entry) -> str:
    missing = f" Missing: {_names(body.missing)}." if body.missing else ""
    failed = f" Could not train: {_names(body.failed)}." if body.failed else ""
    what = f"{len(body.counted)} answers count" if body.counted else "it comes to nothing"
    return f"Round {body.number} closed because of {body.reason}: {what}.{missing}{failed}"


def _weights_averaged(body: entries.WeightsAveraged, _: Entry) -> str:
    return (
        f"Round {body.number} gave weights {body.weights.digest.short}: the mean of "
        f"{len(body.inputs)} answers learned from {body.samples} images, whose exact sum has the "
        f"digest {body.aggregate.short}." + "".join(f" Note: {remark}." for remark in body.remarks)
    )


def _weights_pruned(body: entries.WeightsPruned, _: Entry) -> str:
    rounds = ", ".join(str(number) for number in body.numbers)
    return (
        f"What round{'s' if len(body.numbers) > 1 else ''} {rounds} gave is deleted: that of the "
        f"newest {body.kept_rounds} is kept, and what a model or a device needs."
    )


def _round_failed(body: entries.RoundFailed, _: Entry) -> str:
    return f"Round {body.number} came to nothing: {body.reason}."


def _old_model_chosen(body: entries.OldModelChosen, _: Entry) -> str:
    notes = "".join(f" Note: {remark}." for remark in body.remarks)
    return f"{_scored(body)} {_distilled(body)}{notes}"


def _scored(body: entries.OldModelChosen) -> str:
    if body.newest is None or body.winner is None:
        return f"The proxy has nothing to score the model of round {body.number} by."
    task = " New gradients began a task with this round." if body.shifted else ""
    compared = ", ".join(f"round {model.round} {model.score:.3f}" for model in body.scored)
    return (
        f"The proxy scored the model of round {body.number} at {body.newest.score:.3f}, by "
        f"{body.images} images out of {body.gradients} sets of gradients.{task} Scores of this "
        f"task: {compared}; the best is that of round {body.winner.round}."
    )


def _distilled(body: entries.OldModelChosen) -> str:
    within, entering = _slot(body.previous), _slot(body.current)
    if body.previous is None and body.current is None:
        return "Devices have no old model to distil from yet."
    return (
        f"Devices in the present task distil from {within}, those that enter the next one from "
        f"{entering}."
    )


def _slot(model: entries.OldModel | None) -> str:
    if model is None:
        return "no old model yet"
    return f"the model of round {model.round} ({model.weights.digest.short})"


def _old_model_missed(body: entries.OldModelMissed, _: Entry) -> str:
    return (
        f"The proxy did not score the model of round {body.number} within {body.seconds:g} s; "
        "devices go on with the old models that they have."
    )


def _transition_reported(body: entries.TransitionReported, entry: Entry) -> str:
    if body.why == "class name":
        return f"Device {entry.device} has images of new classes: {_names(tuple(body.classes))}."
    seen = body.uncertainty
    assert seen is not None
    classes = f" It also has folders for {_names(tuple(body.classes))}." if body.classes else ""
    return (
        f"Device {entry.device} is less sure of new images than before: {seen.value:.3f} over "
        f"{seen.images} images under model {seen.model_version}, {seen.baseline:.3f} so far."
        f"{classes}"
    )


def _temperature_fitted(body: entries.TemperatureFitted, _: Entry) -> str:
    return (
        f"The next models multiply scores by {body.logit_scale:.4g} before the softmax: the best "
        f"for {body.images} held-out images of {body.devices} devices under model {body.version}."
    )


def _model_solved(body: entries.ModelSolved, _: Entry) -> str:
    return (
        f"Model {body.version} for {_names(body.class_names)} was solved with {body.method} from "
        f"{len(body.inputs)} contributions in {body.seconds:.2f} s; their sum has the digest "
        f"{body.aggregate.short}." + "".join(f" Note: {remark}." for remark in body.remarks)
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
    whom = _names(body.devices) if body.devices else "every device"
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
    right = sum(result.correct for result in body.results.values())
    asked = sum(result.total for result in body.results.values())
    return (
        f"On device {entry.device} model {body.version} was right for {right} of {asked} held-out "
        f"images ({body.provider})."
    )


def _device_problem(body: entries.DeviceProblem, entry: Entry) -> str:
    return f"Device {entry.device} reports a problem with {body.about}: {body.text}"


def _command_done(body: entries.CommandDone, _: Entry) -> str:
    return f"A command of the operator was carried out: {body.text}."


def _names(names: tuple[Any, ...]) -> str:
    return ", ".join(str(name) for name in names) or "no classes"


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
        _sentence(entries.DeviceBorn, _device_born),
        _sentence(entries.BackboneImported, _backbone_imported),
        _sentence(entries.NetworkImported, _network_imported),
        _sentence(entries.ClassNamed, _class_named),
        _sentence(entries.ClassRenamed, _class_renamed),
        _sentence(entries.ClassMerged, _class_merged),
        _sentence(entries.StageOpened, _stage_opened),
        _sentence(entries.StageClosed, _stage_closed),
        _sentence(entries.ContributionAccepted, _contribution_accepted),
        _sentence(entries.ContributionWithdrawn, _contribution_withdrawn),
        _sentence(entries.NothingReported, _nothing_reported),
        _sentence(entries.RoundOpened, _round_opened),
        _sentence(entries.RoundClosed, _round_closed),
        _sentence(entries.WeightsAveraged, _weights_averaged),
        _sentence(entries.WeightsPruned, _weights_pruned),
        _sentence(entries.RoundFailed, _round_failed),
        _sentence(entries.OldModelChosen, _old_model_chosen),
        _sentence(entries.OldModelMissed, _old_model_missed),
        _sentence(entries.TransitionReported, _transition_reported),
        _sentence(entries.TemperatureFitted, _temperature_fitted),
        _sentence(entries.ModelSolved, _model_solved),
        _sentence(entries.ModelExported, _model_exported),
        _sentence(entries.ModelFailed, _model_failed),
        _sentence(entries.ModelDesired, _model_desired),
        _sentence(entries.ModelsHeld, _models_held),
        _sentence(entries.DeviceModelStatus, _device_model_status),
        _sentence(entries.DeviceEvaluated, _device_evaluated),
        _sentence(entries.DeviceProblem, _device_problem),
        _sentence(entries.CommandDone, _command_done),
    )
)
"""Kind of entry to the function that says it."""
