"""Kinds of entry of models: how each changes the state, and what is said of it."""

from __future__ import annotations

import logging

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.kind import (
    TOLD,
    EntryContext,
    Follows,
    Kind,
    LedgerTopic,
    Notification,
)
from fleetledger.coordinator.core.phrases import count_of, names_of, some
from fleetledger.coordinator.topics.classes.entries import ClassMerged, ClassNamed, ClassRenamed
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionRetracted,
    EarlierSettled,
)
from fleetledger.coordinator.topics.lineages.entries import LINEAGE_KINDS, Lineage, VariantsMade
from fleetledger.coordinator.topics.models import entries, state
from fleetledger.coordinator.topics.models.stack import after_push, after_return
from fleetledger.coordinator.topics.rounds.entries import DescentMarked
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.count_words import agree
from fleetledger.schemas.values import ClassName, Digest


def _fit(models: state.ModelsState, body: entries.TemperatureFitted, _at: EntryContext) -> None:
    models.logit_scale = body.logit_scale


def _say_fitted(body: entries.TemperatureFitted, _: EntryContext) -> str:
    return (
        f"The next models multiply scores by {body.logit_scale:.4g} before the softmax: the best "
        f"for {count_of(body.images, 'held-out sample')} of {count_of(body.devices)} under model "
        f"{body.version}."
    )


def _solve(models: state.ModelsState, body: entries.ModelSolved, at: EntryContext) -> None:
    lineage = models.lineages.current
    assert lineage is not None
    descends = set(body.descends)
    models.add(
        state.ModelVersion(body.version, body, at.index, at.time_ns, lineage, descends=descends)
    )
    models.learned, models.failed = body.version, None
    models.in_a_row += 1


def _say_solved(body: entries.ModelSolved, _: EntryContext) -> str:
    return (
        f"Model {body.version} for {names_of(body.class_names)} was solved with {body.method} from "
        f"{count_of(body.contributions, 'contribution')} in {body.seconds:.2f} s; the sum has the "
        f"digest {body.aggregate.short}."
        + "".join(f" Note: {remark}." for remark in body.remarks)
        + (
            f" It descends from retracted answers of {names_of(body.descends)}."
            if body.descends
            else ""
        )
    )


def _import(models: state.ModelsState, body: entries.ModelImported, at: EntryContext) -> None:
    models.add(state.ModelVersion(body.version, body, at.index, at.time_ns, None))
    models.failed = models.learning_failed


def _say_imported(body: entries.ModelImported, _: EntryContext) -> str:
    knows = {
        "sample": f" for {names_of(body.class_names)}",
        "pixels": f" for pixels of {names_of(body.class_names)}",
        "raw": f" with an output of {' x '.join(map(str, body.output_shape))} numbers",
    }[body.answers]
    return (
        f"Model {body.version}{knows} was imported from {body.name} ({body.file.digest.short}), "
        f"cut at {body.cut}: frozen part {body.frozen.digest.short}, head "
        f"{body.head.digest.short}. It goes nowhere before it is pushed."
        + "".join(f" Note: {remark}." for remark in body.remarks)
    )


def _export(models: state.ModelsState, body: entries.ModelExported, at: EntryContext) -> None:
    model = models.by_version[body.version]
    model.exported, model.exported_index, model.exported_ns = body, at.index, at.time_ns
    if body.version in models.unpacked_versions:
        models.unpacked_versions.remove(body.version)


def _say_exported(body: entries.ModelExported, _: EntryContext) -> str:
    parity = body.parity
    return (
        f"Model {body.version} became ONNX: manifest {body.manifest.digest.short}, scores within "
        f"{parity.max_absolute_difference:.2g} of the coordinator's own in {parity.runtime}."
        + _said_of_variants(body)
    )


def _said_of_variants(body: entries.ModelExported) -> str:
    names = " and ".join(variant.name for variant in body.variants)
    said = f" It has the variants {names}." if names else ""
    return said + "".join(f" {reason[0].upper()}{reason[1:]}." for reason in body.left_out)


def rows_digest(names: tuple[ClassName, ...]) -> Digest:
    """Return the digest of the names of a head's rows, in their order."""
    return Digest.of(canonical_json(list(names)))


def not_made(
    reason: str, *, solved: entries.ModelSolved | None = None, weights_index: int | None = None
) -> entries.ModelFailed:
    """Return the entry of a model that could not be made; an imported one has neither."""
    if solved is None or solved.weights_index is not None:
        index = weights_index if solved is None else solved.weights_index
        return entries.ModelFailed(weights_index=index, reason=reason[: entries.MAX_FAILURE])
    return not_solved(reason, solved.ledger_size, solved.class_names)


def not_solved(reason: str, ledger_size: int, names: tuple[ClassName, ...]) -> entries.ModelFailed:
    """Return the entry of a head that could not be solved of the sum at a size of the ledger."""
    rows, reason = rows_digest(names), reason[: entries.MAX_FAILURE]
    return entries.ModelFailed(ledger_size=ledger_size, rows=rows, reason=reason)


def _fail(models: state.ModelsState, body: entries.ModelFailed, at: EntryContext) -> None:
    models.failed = state.Failure(
        body.ledger_size, body.rows, body.weights_index, body.reason, at.index
    )


def _say_failed(body: entries.ModelFailed, _: EntryContext) -> str:
    if body.ledger_size is not None:
        return (
            f"No model could be solved of what {count_of(body.ledger_size, 'entry', 'entries')} "
            f"{agree(body.ledger_size, 'holds', 'hold')}: {body.reason}."
        )
    if body.weights_index is not None:
        return f"Of the weights of entry {body.weights_index} came no model: {body.reason}."
    return f"No model could be made of what was imported: {body.reason}."


def _desire(models: state.ModelsState, body: entries.ModelDesired, at: EntryContext) -> None:
    desired = state.DesiredVersion(body.version, at.index, body.devices, body.spares, body.group)
    if body.of_all:
        models.offer_all(desired)
        step = after_return if body.returns else after_push
        models.stack = step(models.stack, body.version)
    elif body.devices is not None:
        models.desired_by_device.update(dict.fromkeys(body.devices, desired))
    else:
        models.offer_group(desired)


def _say_desired(body: entries.ModelDesired, _: EntryContext) -> str:
    whom = names_of(body.devices) if body.devices else "every device"
    if body.group is not None and not body.devices:
        whom = f"group {body.group.group} of rollout {body.group.rollout}"
    compares = body.group is not None and body.group.mode == "shadow"
    what = "be measured beside what runs" if compares else "run"
    return f"Model {body.version} is to {what} on {whom}: {body.reason}."


def _notify_of_desired(body: entries.ModelDesired) -> Notification:
    return Notification("desired" if body.group is None else "offered", body.devices)


def _pin(models: state.ModelsState, body: entries.DevicePinned, at: EntryContext) -> None:
    for device in body.devices:
        models.pinned.pop(device, None)
        models.unpinned.pop(device, None)
    if body.version is not None:
        pin = state.DesiredVersion(body.version, at.index, body.devices, pins=True)
        models.pinned.update(dict.fromkeys(body.devices, pin))
    elif body.then is not None:
        for device in body.devices:
            found = models.unpinned_desire(device)
            group = None if found is None else found.group  # it goes on in that, too
            after = state.DesiredVersion(body.then, at.index, body.devices, group=group, pins=False)
            models.unpinned[device] = after


def _say_pinned(body: entries.DevicePinned, _: EntryContext) -> str:
    whom = some(body.devices)
    if body.version is not None:
        return f"Pinned to model {body.version}, whatever is desired of others: {whom}."
    goes_on = "" if body.then is None else f", and to run model {body.then} as others do"
    return f"Pinned no longer{goes_on}: {whom}."


def _hold(models: state.ModelsState, body: entries.ModelsHeld, at: EntryContext) -> None:
    models.held_index = at.index if body.held else None


def _say_held(body: entries.ModelsHeld, _: EntryContext) -> str:
    do = "wait for the operator to push them" if body.held else "go out by themselves again"
    return f"New models {do}."


def _withhold(models: state.ModelsState, body: entries.ModelWithheld, at: EntryContext) -> None:
    models.withheld_last = state.Withheld(body.version, body.lacks, at.index)


def _say_withheld(body: entries.ModelWithheld, _: EntryContext) -> str:
    return (
        f"Model {body.version} does not know {some(body.lacks)}, which the model that all devices "
        "run does: it goes to no device until the operator pushes it."
    )


def _take_status(
    models: state.ModelsState, body: entries.DeviceModelStatus, at: EntryContext
) -> None:
    running = models.by_device.setdefault(at.maker, state.Running())
    running.report(body.status, at.index)
    if body.status.state in ("active", "settled"):
        running.active_version = body.status.version
    elif body.status.state == "shadowing":
        running.active_version = body.former


def _say_status(body: entries.DeviceModelStatus, at: EntryContext) -> str:
    status = body.status
    reason = f": {status.reason}" if status.reason else ""
    said = status.state.replace("_", " ").replace("shadowing", "measured beside what runs")
    if status.variant is not None:
        said += f" as {status.variant}"
    return f"On device {at.device} model {status.version} is {said}{reason}."


def _worth_of_status(body: entries.DeviceModelStatus) -> int:
    return logging.WARNING if body.status.state in ("failed", "rolled_back") else logging.INFO


def _evaluate(models: state.ModelsState, body: entries.DeviceEvaluated, at: EntryContext) -> None:
    running = models.by_device.setdefault(at.maker, state.Running())
    evaluation = body.evaluation
    running.evaluated_version, running.evaluated_variant = evaluation.version, evaluation.variant
    running.measured = state.DeviceMeasurement.of(body, at.index)
    models.measure(evaluation.version, at.maker, running.measured)
    if body.answers == "pixels":
        return  # totals are pixels, and no temperature is fitted on these
    model, newest = models.by_version.get(evaluation.version), models.calibrated_version or 0
    if not evaluation.losses or model is None or evaluation.version < newest:
        return
    if model.lineage is None or model.lineage != models.lineages.current:
        return
    if evaluation.version > newest:
        models.calibrated_version = evaluation.version
        models.calibration.clear()
    images = sum(result.total for result in evaluation.results.values())
    models.calibration[at.maker] = state.ReportedLosses(images, evaluation.losses)


def measured_by(body: entries.DeviceEvaluated) -> str:
    """Return the provider and what is known of the machine meanwhile."""
    evaluation = body.evaluation
    said = [evaluation.provider]
    if evaluation.power_mode is not None:
        said.append(f"power mode {evaluation.power_mode}")
    if evaluation.celsius is not None:
        said.append(f"{evaluation.celsius:.0f} °C")
    if evaluation.throttled:
        said.append(f"slowed down {count_of(evaluation.throttled, 'time')}")
    if len(said) > 1:
        said.insert(1, f"{evaluation.seconds:.1f} s")
    return ", ".join(said)


def _say_evaluated(body: entries.DeviceEvaluated, at: EntryContext) -> str:
    evaluation = body.evaluation
    if body.answers == "pixels":
        return _mean_iou(body, at)
    right = sum(result.correct for result in evaluation.results.values())
    asked = sum(result.total for result in evaluation.results.values())
    variant = f", as {evaluation.variant}" if evaluation.variant is not None else ""
    return (
        f"On device {at.device} model {evaluation.version} was right for {right} of "
        f"{count_of(asked, 'held-out sample')} ({measured_by(body)}{variant})."
    )


def _mean_iou(body: entries.DeviceEvaluated, at: EntryContext) -> str:
    evaluation = body.evaluation
    shares = [result.correct / result.total for result in evaluation.results.values()]
    mean = 100 * sum(shares) / max(len(shares), 1)
    return (
        f"On device {at.device} model {evaluation.version} has a mean IoU of {mean:.1f} % on the "
        f"pixels of held-out pictures, over {count_of(len(shares), 'class', 'classes')} with the "
        f"background ({measured_by(body)})."
    )


def _hurry(models: state.ModelsState, _body: EntryBody, _at: EntryContext) -> None:
    """Let the next model wait for a short pause."""
    models.in_a_row = 0


def _begin_lineage(models: state.ModelsState, _body: Lineage, _at: EntryContext) -> None:
    if models.lineages.goes_on:
        return
    models.logit_scale = models.calibrated_version = None
    models.calibration.clear()


def _mark_descent(models: state.ModelsState, body: DescentMarked, _at: EntryContext) -> None:
    for version in models.by_version.keys() & set(body.versions):
        models.by_version[version].descends.add(body.device)


_URGENT: tuple[type[EntryBody], ...] = (
    *LINEAGE_KINDS,
    VariantsMade,
    ClassNamed,
    ClassRenamed,
    ClassMerged,
    StageClosed,
    ContributionRetracted,
    EarlierSettled,
)
"""Kinds of entry after which nobody is to wait long for a model."""
MODELS: LedgerTopic[state.ModelsState] = LedgerTopic(
    "models",
    kinds=(
        Kind(entries.TemperatureFitted, _fit, _say_fitted),
        Kind(entries.ModelSolved, _solve, _say_solved),
        Kind(entries.ModelImported, _import, _say_imported),
        Kind(entries.ModelExported, _export, _say_exported),
        Kind(entries.ModelFailed, _fail, _say_failed, worth=logging.WARNING, trouble=True),
        Kind(entries.ModelDesired, _desire, _say_desired, _notify_of_desired),
        Kind(
            entries.DevicePinned,
            _pin,
            _say_pinned,
            lambda body: Notification("desired", body.devices),
        ),
        Kind(entries.ModelsHeld, _hold, _say_held),
        Kind(entries.ModelWithheld, _withhold, _say_withheld, worth=TOLD, trouble=True),
        Kind(
            entries.DeviceModelStatus,
            _take_status,
            _say_status,
            worth=_worth_of_status,
            trouble="json_extract(body, '$.status.state') IN ('failed', 'rolled_back')",
        ),
        Kind(entries.DeviceEvaluated, _evaluate, _say_evaluated),
    ),
    follows=(
        *(Follows(body, _begin_lineage) for body in LINEAGE_KINDS),
        *(Follows(body, _hurry) for body in _URGENT),
        Follows(DescentMarked, _mark_descent),
    ),
)
