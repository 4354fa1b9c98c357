"""Kinds of entry of models: how each changes the state, and what devices are told again."""

from __future__ import annotations

import logging

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import TOLD, Follows, Kind, LedgerTopic, Notification
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
from fleetledger.schemas.values import ClassName, Digest


def _fit(models: state.ModelsState, body: entries.TemperatureFitted, _at: EntryContext) -> None:
    models.logit_scale = body.logit_scale


def _solve(models: state.ModelsState, body: entries.ModelSolved, at: EntryContext) -> None:
    lineage = models.lineages.current
    assert lineage is not None
    descends = set(body.descends)
    models.add(
        state.ModelVersion(body.version, body, at.index, at.time_ns, lineage, descends=descends)
    )
    models.learned, models.failed = body.version, None
    models.in_a_row += 1


def _import(models: state.ModelsState, body: entries.ModelImported, at: EntryContext) -> None:
    models.add(state.ModelVersion(body.version, body, at.index, at.time_ns, None))
    models.failed = models.learning_failed


def _export(models: state.ModelsState, body: entries.ModelExported, at: EntryContext) -> None:
    model = models.by_version[body.version]
    model.exported, model.exported_index, model.exported_ns = body, at.index, at.time_ns
    if body.version in models.unpacked_versions:
        models.unpacked_versions.remove(body.version)


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


def _hold(models: state.ModelsState, body: entries.ModelsHeld, at: EntryContext) -> None:
    models.held_index = at.index if body.held else None


def _withhold(models: state.ModelsState, body: entries.ModelWithheld, at: EntryContext) -> None:
    models.withheld_last = state.Withheld(body.version, body.lacks, at.index)


def _take_status(
    models: state.ModelsState, body: entries.DeviceModelStatus, at: EntryContext
) -> None:
    running = models.by_device.setdefault(at.maker, state.Running())
    running.report(body.status, at.index)
    if body.status.state in ("active", "settled"):
        running.active_version = body.status.version
    elif body.status.state == "shadowing":
        running.active_version = body.former


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
        Kind(entries.TemperatureFitted, _fit),
        Kind(entries.ModelSolved, _solve),
        Kind(entries.ModelImported, _import),
        Kind(entries.ModelExported, _export),
        Kind(entries.ModelFailed, _fail, worth=logging.WARNING, trouble=True),
        Kind(entries.ModelDesired, _desire, _notify_of_desired),
        Kind(
            entries.DevicePinned,
            _pin,
            lambda body: Notification("desired", body.devices),
        ),
        Kind(entries.ModelsHeld, _hold),
        Kind(entries.ModelWithheld, _withhold, worth=TOLD, trouble=True),
        Kind(
            entries.DeviceModelStatus,
            _take_status,
            worth=_worth_of_status,
            trouble="json_extract(body, '$.status.state') IN ('failed', 'rolled_back')",
        ),
        Kind(entries.DeviceEvaluated, _evaluate),
    ),
    follows=(
        *(Follows(body, _begin_lineage) for body in LINEAGE_KINDS),
        *(Follows(body, _hurry) for body in _URGENT),
        Follows(DescentMarked, _mark_descent),
    ),
)
