"""What becomes of models: solved, exported, desired, held; what devices say of them."""

from __future__ import annotations

import logging
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.formatting import count_of, names_of, some
from fleetledger.coordinator.core.kind import TOLD, Follows, Kind, LedgerTopic, Place, Telling
from fleetledger.coordinator.topics.classes.entries import ClassMerged, ClassNamed, ClassRenamed
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionRetracted,
    EarlierSettled,
)
from fleetledger.coordinator.topics.devices.entries import MAX_NAMED
from fleetledger.coordinator.topics.lineages.entries import LINEAGE_KINDS, Lineage, VariantsMade
from fleetledger.coordinator.topics.models.offers import GroupOffer
from fleetledger.coordinator.topics.models.stack import after_push, after_return
from fleetledger.coordinator.topics.models.state import (
    DesiredVersion,
    DeviceMeasurement,
    Failure,
    ModelsState,
    ModelVersion,
    ReportedLosses,
    Running,
    Withheld,
)
from fleetledger.coordinator.topics.rounds.entries import DescentMarked
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.counted import agree
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.models import MAX_LACKING, Answers, AnyPreprocessing, Parity
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.reports import ClassResult
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.schemas.variants import MAX_VARIANTS, VariantName, VariantOffer

MAX_FAILURE = 2000


class TemperatureFitted(EntryBody):
    """The inverse temperature that models get from here on."""

    kind: ClassVar[str] = "temperature.fitted"
    version: int
    """The model whose scores it was fitted on."""
    logit_scale: float = Field(gt=0)
    images: int
    devices: int
    nats_per_image: float
    """Mean negative log-likelihood at that scale."""


def _fit(models: ModelsState, body: TemperatureFitted, _at: Place) -> None:
    models.logit_scale = body.logit_scale


def _say_fitted(body: TemperatureFitted, _: Place) -> str:
    return (
        f"The next models multiply scores by {body.logit_scale:.4g} before the softmax: the best "
        f"for {count_of(body.images, 'held-out sample')} of {count_of(body.devices)} under model "
        f"{body.version}."
    )


class ModelSolved(EntryBody):
    """A head was solved from the sum of what counted, or a network was taken.

    No list of contributions is in it: which ones counted after the first `ledger_size` entries is
    what `coordinator.making.held_parts` folds these entries to.
    """

    kind: ClassVar[str] = "model.solved"
    version: int = Field(ge=1)
    lineage: Digest
    ledger_size: int = Field(ge=0)
    """Number of entries after which the sum was as it was solved."""
    contributions: int = Field(ge=0)
    """Number of contributions in the sum; of a network 1, its weights."""
    weights_index: int | None = Field(default=None, exclude_if=is_absent)
    """Of a network: the entry of its weights, which are the head. None where a head was solved."""
    class_names: tuple[ClassName, ...]
    aggregate: Digest
    head: Digest
    """The head's weights, as a blob."""
    method: str
    fingerprint: dict[str, str]
    """Platform that solved it: the head's digest is promised for the same fingerprint only."""
    seconds: float
    remarks: tuple[str, ...] = ()
    """What the method wants an operator to know of the head."""
    descends: tuple[DeviceId, ...] = ()
    """Devices of whose answers to rounds it descends that were retracted before."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The head's weights."""
        return (self.head,)


def _solve(models: ModelsState, body: ModelSolved, at: Place) -> None:
    lineage = models.lineages.current
    assert lineage is not None
    descends = set(body.descends)
    models.add(ModelVersion(body.version, body, at.index, at.time_ns, lineage, descends=descends))
    models.learned, models.failed = body.version, None
    models.in_a_row += 1


def _say_solved(body: ModelSolved, _: Place) -> str:
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


class ImportedFiles(EntryBody):
    """A model that was made elsewhere: the files that devices get, and what they have to know."""

    name: str = Field(min_length=1, max_length=255)
    """Of the ONNX file that it came as."""
    file: FileReference
    """That file, which is not kept: its halves are."""
    frozen: Offer
    head: Offer
    golden: Offer
    golden_scores: Offer
    class_names: tuple[ClassName, ...]
    """In the order of the head's rows; a raw output may do without."""
    preprocessing: AnyPreprocessing
    answers: Answers = "sample"
    output_shape: tuple[int, ...] = ()
    """Axes of a raw output behind the samples."""
    feature_width: int = Field(ge=1)
    logit_scale: float = Field(default=1.0, gt=0)
    """Inverse temperature: probabilities are the softmax of so many times the scores."""
    cut: str
    """The value of the file at which it was cut, as the file calls it."""
    parity: Parity
    """How closely the pair follows the file, both run by the operator's machine."""
    tolerance: float = Field(gt=0)
    """Largest difference to a golden score that a device's self-test accepts."""
    remarks: tuple[str, ...] = Field(default=(), max_length=16)
    """What the file's numbers mean, and warnings; a sentence each."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The four files."""
        return tuple(offer.digest for offer in self.offers)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The four files, as manifests list them."""
        return (self.frozen, self.head, self.golden, self.golden_scores)


class ModelImported(ImportedFiles):
    """The operator brought a model of their own; it goes nowhere before it is pushed."""

    kind: ClassVar[str] = "model.imported"
    version: int = Field(ge=1)


def _import(models: ModelsState, body: ModelImported, at: Place) -> None:
    models.add(ModelVersion(body.version, body, at.index, at.time_ns, None))
    models.failed = models.learning_failed


def _say_imported(body: ModelImported, _: Place) -> str:
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


class ModelExported(EntryBody):
    """A solved head became a pair of ONNX files with a manifest."""

    kind: ClassVar[str] = "model.exported"
    version: int
    manifest: Offer
    files: tuple[Offer, ...]
    parity: Parity
    variants: tuple[VariantOffer, ...] = Field(
        default=(), max_length=MAX_VARIANTS, exclude_if=is_absent
    )
    """Variants of the frozen file that the manifest pins."""
    left_out: tuple[str, ...] = Field(default=(), max_length=MAX_VARIANTS, exclude_if=is_absent)
    """Why others are not among them, a sentence each."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The manifest and every file that it pins."""
        variants = (variant.frozen for variant in self.variants)
        return (self.manifest.digest, *(offer.digest for offer in (*self.files, *variants)))


def _export(models: ModelsState, body: ModelExported, at: Place) -> None:
    model = models.by_version[body.version]
    model.exported, model.exported_index, model.exported_ns = body, at.index, at.time_ns
    if body.version in models.unpacked_versions:
        models.unpacked_versions.remove(body.version)


def _say_exported(body: ModelExported, _: Place) -> str:
    parity = body.parity
    return (
        f"Model {body.version} became ONNX: manifest {body.manifest.digest.short}, scores within "
        f"{parity.max_absolute_difference:.2g} of the coordinator's own in {parity.runtime}."
        + _said_of_variants(body)
    )


def _said_of_variants(body: ModelExported) -> str:
    names = " and ".join(variant.name for variant in body.variants)
    said = f" It has the variants {names}." if names else ""
    return said + "".join(f" {reason[0].upper()}{reason[1:]}." for reason in body.left_out)


class ModelFailed(EntryBody):
    """A model could not be solved or exported; the text says why."""

    kind: ClassVar[str] = "model.failed"
    ledger_size: int | None = Field(default=None, exclude_if=is_absent)
    """Number of entries after which the sum was as it could not be solved; None of other models."""
    rows: Digest | None = Field(default=None, exclude_if=is_absent)
    """Digest of the class names that it was to know; None where it was imported."""
    weights_index: int | None = Field(default=None, exclude_if=is_absent)
    """Of a network: the entry of its weights."""
    reason: str = Field(max_length=MAX_FAILURE)


def rows_digest(names: tuple[ClassName, ...]) -> Digest:
    """Return the digest of the names of a head's rows, in their order."""
    return Digest.of(canonical_json(list(names)))


def not_made(
    reason: str, *, solved: ModelSolved | None = None, weights_index: int | None = None
) -> ModelFailed:
    """Return the entry of a model that could not be made; an imported one has neither."""
    if solved is None or solved.weights_index is not None:
        index = weights_index if solved is None else solved.weights_index
        return ModelFailed(weights_index=index, reason=reason[:MAX_FAILURE])
    return not_solved(reason, solved.ledger_size, solved.class_names)


def not_solved(reason: str, ledger_size: int, names: tuple[ClassName, ...]) -> ModelFailed:
    """Return the entry of a head that could not be solved of the sum at a size of the ledger."""
    rows, reason = rows_digest(names), reason[:MAX_FAILURE]
    return ModelFailed(ledger_size=ledger_size, rows=rows, reason=reason)


def _fail(models: ModelsState, body: ModelFailed, at: Place) -> None:
    models.failed = Failure(body.ledger_size, body.rows, body.weights_index, body.reason, at.index)


def _say_failed(body: ModelFailed, _: Place) -> str:
    if body.ledger_size is not None:
        return (
            f"No model could be solved of what {count_of(body.ledger_size, 'entry', 'entries')} "
            f"{agree(body.ledger_size, 'holds', 'hold')}: {body.reason}."
        )
    if body.weights_index is not None:
        return f"Of the weights of entry {body.weights_index} came no model: {body.reason}."
    return f"No model could be made of what was imported: {body.reason}."


class ModelDesired(EntryBody):
    """A model is to run on all devices, or on the listed ones."""

    kind: ClassVar[str] = "model.desired"
    version: int
    devices: tuple[DeviceId, ...] | None = None
    reason: str
    returns: bool = False
    """It goes back to what all devices were to run before."""
    spares: bool = False
    """Devices that were told to run a version of their own go on with it."""
    group: GroupOffer | None = Field(default=None, exclude_if=is_absent)
    """A rollout offers it to one of its groups: to the listed devices, or to all that it has."""

    @property
    def of_all(self) -> bool:
        """Whether it is what the whole fleet is to run, and not some devices or a group."""
        return self.devices is None and (self.group is None or self.group.of_all)


def _desire(models: ModelsState, body: ModelDesired, at: Place) -> None:
    desired = DesiredVersion(body.version, at.index, body.devices, body.spares, body.group)
    if body.of_all:
        models.offer_all(desired)
        step = after_return if body.returns else after_push
        models.stack = step(models.stack, body.version)
    elif body.devices is not None:
        models.desired_by_device.update(dict.fromkeys(body.devices, desired))
    else:
        models.offer_group(desired)


def _say_desired(body: ModelDesired, _: Place) -> str:
    whom = names_of(body.devices) if body.devices else "every device"
    if body.group is not None and not body.devices:
        whom = f"group {body.group.group} of rollout {body.group.rollout}"
    compares = body.group is not None and body.group.mode == "shadow"
    what = "be measured beside what runs" if compares else "run"
    return f"Model {body.version} is to {what} on {whom}: {body.reason}."


def _tells_of_desired(body: ModelDesired) -> Telling:
    return Telling("desired" if body.group is None else "offered", body.devices)


class DevicePinned(EntryBody):
    """Devices run one version, whatever is desired of others; or no longer do."""

    kind: ClassVar[str] = "device.pinned"
    devices: tuple[DeviceId, ...] = Field(min_length=1, max_length=MAX_NAMED)
    version: int | None = Field(default=None, ge=1)
    """None ends it."""
    then: int | None = Field(default=None, ge=1)
    """Where it ends: what all of them are to run from here on, as if they had not been pinned; None
    where nothing is desired of them."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.version is not None and self.then is not None:
            raise ValueError("then: has no meaning with a version; leave it out")
        return self


def _pin(models: ModelsState, body: DevicePinned, at: Place) -> None:
    for device in body.devices:
        models.pinned.pop(device, None)
        models.unpinned.pop(device, None)
    if body.version is not None:
        pin = DesiredVersion(body.version, at.index, body.devices, pins=True)
        models.pinned.update(dict.fromkeys(body.devices, pin))
    elif body.then is not None:
        for device in body.devices:
            found = models.unpinned_desire(device)
            group = None if found is None else found.group  # it goes on in that, too
            after = DesiredVersion(body.then, at.index, body.devices, group=group, pins=False)
            models.unpinned[device] = after


def _say_pinned(body: DevicePinned, _: Place) -> str:
    whom = some(body.devices)
    if body.version is not None:
        return f"Pinned to model {body.version}, whatever is desired of others: {whom}."
    goes_on = "" if body.then is None else f", and to run model {body.then} as others do"
    return f"Pinned no longer{goes_on}: {whom}."


class ModelsHeld(EntryBody):
    """Whether newly solved models wait for the operator instead of becoming desired."""

    kind: ClassVar[str] = "model.held"
    held: bool


def _hold(models: ModelsState, body: ModelsHeld, at: Place) -> None:
    models.held_index = at.index if body.held else None


def _say_held(body: ModelsHeld, _: Place) -> str:
    do = "wait for the operator to push them" if body.held else "go out by themselves again"
    return f"New models {do}."


class ModelWithheld(EntryBody):
    """A solved model lacks classes of the one that all devices run: it waits for a person."""

    kind: ClassVar[str] = "model.withheld"
    version: int
    lacks: tuple[ClassName, ...] = Field(min_length=1, max_length=MAX_LACKING)
    """Classes of which nothing in the sum has images any more; of many the first."""


def _withhold(models: ModelsState, body: ModelWithheld, at: Place) -> None:
    models.withheld_last = Withheld(body.version, body.lacks, at.index)


def _say_withheld(body: ModelWithheld, _: Place) -> str:
    return (
        f"Model {body.version} does not know {some(body.lacks)}, which the model that all devices "
        "run does: it goes to no device until the operator pushes it."
    )


class DeviceModelStatus(EntryBody):
    """What became of a desired model on a device."""

    kind: ClassVar[str] = "device.model_status"
    version: int
    manifest: Digest
    state: Literal["shadowing", "active", "settled", "failed", "rolled_back"]
    reason: str = ""
    former: int | None = Field(default=None, exclude_if=is_absent)
    """In a rollout: the version that it is compared with, or that it took the place of."""
    throttled: int | None = Field(default=None, exclude_if=is_absent)
    """Once it settled: how often the machine slowed itself down since the switch."""
    variant: VariantName | None = Field(default=None, exclude_if=is_absent)
    """The variant of the frozen part that runs; None for the reference."""


def _take_status(models: ModelsState, body: DeviceModelStatus, at: Place) -> None:
    running = models.by_device.setdefault(at.maker, Running())
    running.report(body, at.index)
    if body.state in ("active", "settled"):
        running.active_version = body.version
    elif body.state == "shadowing":
        running.active_version = body.former


def _say_status(body: DeviceModelStatus, at: Place) -> str:
    reason = f": {body.reason}" if body.reason else ""
    state = body.state.replace("_", " ").replace("shadowing", "measured beside what runs")
    if body.variant is not None:
        state += f" as {body.variant}"
    return f"On device {at.device} model {body.version} is {state}{reason}."


def _worth_of_status(body: DeviceModelStatus) -> int:
    return logging.WARNING if body.state in ("failed", "rolled_back") else logging.INFO


class DeviceEvaluated(EntryBody):
    """Accuracy measured on a device with the model that runs there."""

    kind: ClassVar[str] = "device.evaluated"
    version: int
    results: dict[ClassName, ClassResult]
    provider: str
    seconds: float
    power_mode: str | None = Field(default=None, exclude_if=is_absent)
    celsius: float | None = Field(default=None, exclude_if=is_absent)
    """The hottest that the machine was when the time was taken."""
    throttled: int | None = Field(default=None, exclude_if=is_absent)
    """How often it slowed itself down meanwhile."""
    bytes_up: int
    bytes_down: int
    losses: tuple[int, ...] = ()
    """Summed losses of the same images at the scales of `learning.numerics.calibration`."""
    variant: VariantName | None = Field(default=None, exclude_if=is_absent)
    """The variant of the frozen part that was measured; None for the reference."""
    answers: Literal["sample", "pixels"] = "sample"
    """What the model gives a class. Of pixels, results are the sizes of intersection and union of
    what is of a class and what the model took for it, the background among the classes."""


def _evaluate(models: ModelsState, body: DeviceEvaluated, at: Place) -> None:
    running = models.by_device.setdefault(at.maker, Running())
    running.evaluated_version, running.evaluated_variant = body.version, body.variant
    running.measured = DeviceMeasurement.of(body, at.index)
    models.measure(body.version, at.maker, running.measured)
    if body.answers == "pixels":
        return  # totals are pixels, and no temperature is fitted on these
    model, newest = models.by_version.get(body.version), models.calibrated_version or 0
    if not body.losses or model is None or body.version < newest:
        return
    if model.lineage is None or model.lineage != models.lineages.current:
        return
    if body.version > newest:
        models.calibrated_version = body.version
        models.calibration.clear()
    images = sum(result.total for result in body.results.values())
    models.calibration[at.maker] = ReportedLosses(images, body.losses)


def measured_by(body: DeviceEvaluated) -> str:
    """Return the provider and what is known of the machine meanwhile."""
    said = [body.provider]
    if body.power_mode is not None:
        said.append(f"power mode {body.power_mode}")
    if body.celsius is not None:
        said.append(f"{body.celsius:.0f} °C")
    if body.throttled:
        said.append(f"slowed down {count_of(body.throttled, 'time')}")
    if len(said) > 1:
        said.insert(1, f"{body.seconds:.1f} s")
    return ", ".join(said)


def _say_evaluated(body: DeviceEvaluated, at: Place) -> str:
    if body.answers == "pixels":
        return _mean_iou(body, at)
    right = sum(result.correct for result in body.results.values())
    asked = sum(result.total for result in body.results.values())
    variant = f", as {body.variant}" if body.variant is not None else ""
    return (
        f"On device {at.device} model {body.version} was right for {right} of "
        f"{count_of(asked, 'held-out sample')} ({measured_by(body)}{variant})."
    )


def _mean_iou(body: DeviceEvaluated, at: Place) -> str:
    shares = [result.correct / result.total for result in body.results.values()]
    mean = 100 * sum(shares) / max(len(shares), 1)
    return (
        f"On device {at.device} model {body.version} has a mean IoU of {mean:.1f} % on the "
        f"pixels of held-out pictures, over {count_of(len(shares), 'class', 'classes')} with the "
        f"background ({measured_by(body)})."
    )


def _hurry(models: ModelsState, _body: EntryBody, _at: Place) -> None:
    """Let the next model wait for a short pause."""
    models.in_a_row = 0


def _begin_lineage(models: ModelsState, _body: Lineage, _at: Place) -> None:
    if models.lineages.goes_on:
        return
    models.logit_scale = models.calibrated_version = None
    models.calibration.clear()


def _mark_descent(models: ModelsState, body: DescentMarked, _at: Place) -> None:
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


MODELS: LedgerTopic[ModelsState] = LedgerTopic(
    "models",
    kinds=(
        Kind(TemperatureFitted, _fit, _say_fitted),
        Kind(ModelSolved, _solve, _say_solved),
        Kind(ModelImported, _import, _say_imported),
        Kind(ModelExported, _export, _say_exported),
        Kind(ModelFailed, _fail, _say_failed, worth=logging.WARNING, trouble=True),
        Kind(ModelDesired, _desire, _say_desired, _tells_of_desired),
        Kind(DevicePinned, _pin, _say_pinned, lambda body: Telling("desired", body.devices)),
        Kind(ModelsHeld, _hold, _say_held),
        Kind(ModelWithheld, _withhold, _say_withheld, worth=TOLD, trouble=True),
        Kind(
            DeviceModelStatus,
            _take_status,
            _say_status,
            worth=_worth_of_status,
            trouble="json_extract(body, '$.state') IN ('failed', 'rolled_back')",
        ),
        Kind(DeviceEvaluated, _evaluate, _say_evaluated),
    ),
    follows=(
        *(Follows(body, _begin_lineage) for body in LINEAGE_KINDS),
        *(Follows(body, _hurry) for body in _URGENT),
        Follows(DescentMarked, _mark_descent),
    ),
)
