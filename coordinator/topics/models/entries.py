"""What becomes of models: solved, exported, desired, held; what devices say of them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.phrases import count_of, names_of, some
from fleetledger.coordinator.topics.devices.entries import MAX_NAMED
from fleetledger.coordinator.topics.models.offers import GroupOffer
from fleetledger.runtime.count_words import agree
from fleetledger.runtime.strict import Strict
from fleetledger.schemas import models
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.reports import Evaluation
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.schemas.variants import MAX_VARIANTS, VariantOffer

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

    def say(self, at: EntryContext) -> str:
        return (
            f"The next models multiply scores by {self.logit_scale:.4g} before the softmax: the "
            f"best for {count_of(self.images, 'held-out sample')} of {count_of(self.devices)} "
            f"under model {self.version}."
        )


class ModelSolved(EntryBody):
    """A head was solved from the sum of what counted, or a network was taken.

    No list of contributions is in it: which ones counted after the first `ledger_size` entries is
    what `coordinator.models.held_parts` folds these entries to.
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

    def say(self, at: EntryContext) -> str:
        return (
            f"Model {self.version} for {names_of(self.class_names)} was solved with {self.method} "
            f"from {count_of(self.contributions, 'contribution')} in {self.seconds:.2f} s; the sum "
            f"has the digest {self.aggregate.short}."
            + "".join(f" Note: {remark}." for remark in self.remarks)
            + (
                f" It descends from retracted answers of {names_of(self.descends)}."
                if self.descends
                else ""
            )
        )


class ImportedFiles(Strict):
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
    preprocessing: models.AnyPreprocessing
    answers: models.Answers = "sample"
    output_shape: tuple[int, ...] = ()
    """Axes of a raw output behind the samples."""
    feature_width: int = Field(ge=1)
    logit_scale: float = Field(default=1.0, gt=0)
    """Inverse temperature: probabilities are the softmax of so many times the scores."""
    cut: str
    """The value of the file at which it was cut, as the file calls it."""
    parity: models.Parity
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


class ModelImported(ImportedFiles, EntryBody):
    """The operator brought a model of their own; it goes nowhere before it is pushed."""

    kind: ClassVar[str] = "model.imported"
    version: int = Field(ge=1)

    def say(self, at: EntryContext) -> str:
        knows = {
            "sample": f" for {names_of(self.class_names)}",
            "pixels": f" for pixels of {names_of(self.class_names)}",
            "raw": f" with an output of {' x '.join(map(str, self.output_shape))} numbers",
        }[self.answers]
        return (
            f"Model {self.version}{knows} was imported from {self.name} "
            f"({self.file.digest.short}), cut at {self.cut}: frozen part "
            f"{self.frozen.digest.short}, head {self.head.digest.short}. It goes nowhere before it "
            "is pushed." + "".join(f" Note: {remark}." for remark in self.remarks)
        )


class ModelExported(EntryBody):
    """A solved head became a pair of ONNX files with a manifest."""

    kind: ClassVar[str] = "model.exported"
    version: int
    manifest: Offer
    files: tuple[Offer, ...]
    parity: models.Parity
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

    def say(self, at: EntryContext) -> str:
        parity = self.parity
        return (
            f"Model {self.version} became ONNX: manifest {self.manifest.digest.short}, scores "
            f"within {parity.max_absolute_difference:.2g} of the coordinator's own in "
            f"{parity.runtime}." + _said_of_variants(self)
        )


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

    def say(self, at: EntryContext) -> str:
        if self.ledger_size is not None:
            return (
                "No model could be solved of what "
                f"{count_of(self.ledger_size, 'entry', 'entries')} "
                f"{agree(self.ledger_size, 'holds', 'hold')}: {self.reason}."
            )
        if self.weights_index is not None:
            return f"Of the weights of entry {self.weights_index} came no model: {self.reason}."
        return f"No model could be made of what was imported: {self.reason}."


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

    def say(self, at: EntryContext) -> str:
        whom = names_of(self.devices) if self.devices else "every device"
        if self.group is not None and not self.devices:
            whom = f"group {self.group.group} of rollout {self.group.rollout}"
        compares = self.group is not None and self.group.mode == "shadow"
        what = "be measured beside what runs" if compares else "run"
        return f"Model {self.version} is to {what} on {whom}: {self.reason}."


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

    def say(self, at: EntryContext) -> str:
        whom = some(self.devices)
        if self.version is not None:
            return f"Pinned to model {self.version}, whatever is desired of others: {whom}."
        goes_on = "" if self.then is None else f", and to run model {self.then} as others do"
        return f"Pinned no longer{goes_on}: {whom}."


class ModelsHeld(EntryBody):
    """Whether newly solved models wait for the operator instead of becoming desired."""

    kind: ClassVar[str] = "model.held"
    held: bool

    def say(self, at: EntryContext) -> str:
        do = "wait for the operator to push them" if self.held else "go out by themselves again"
        return f"New models {do}."


class ModelWithheld(EntryBody):
    """A solved model lacks classes of the one that all devices run: it waits for a person."""

    kind: ClassVar[str] = "model.withheld"
    version: int
    lacks: tuple[ClassName, ...] = Field(min_length=1, max_length=models.MAX_LACKING)
    """Classes of which nothing in the sum has images any more; of many the first."""

    def say(self, at: EntryContext) -> str:
        return (
            f"Model {self.version} does not know {some(self.lacks)}, which the model that all "
            "devices run does: it goes to no device until the operator pushes it."
        )


class DeviceModelStatus(EntryBody):
    """What became of a desired model on a device."""

    kind: ClassVar[str] = "device.model_status"
    status: models.ModelStatus
    offered: bool = Field(default=False, exclude_if=is_absent)
    """A rollout offered the version to the device."""

    @property
    def former(self) -> int | None:
        """In a rollout: the version that it is compared with, or that it took the place of."""
        return self.status.previous_version if self.offered else None

    def say(self, at: EntryContext) -> str:
        status = self.status
        reason = f": {status.reason}" if status.reason else ""
        said = status.state.replace("_", " ").replace("shadowing", "measured beside what runs")
        if status.variant is not None:
            said += f" as {status.variant}"
        return f"On device {at.device} model {status.version} is {said}{reason}."


class DeviceEvaluated(EntryBody):
    """Accuracy measured on a device with the model that runs there."""

    kind: ClassVar[str] = "device.evaluated"
    evaluation: Evaluation
    answers: Literal["sample", "pixels"] = "sample"
    """What the model gives a class. Of pixels, results are the sizes of intersection and union of
    what is of a class and what the model took for it, the background among the classes."""

    def say(self, at: EntryContext) -> str:
        evaluation = self.evaluation
        if self.answers == "pixels":
            return _mean_iou(self, at)
        right = sum(result.correct for result in evaluation.results.values())
        asked = sum(result.total for result in evaluation.results.values())
        variant = f", as {evaluation.variant}" if evaluation.variant is not None else ""
        return (
            f"On device {at.device} model {evaluation.version} was right for {right} of "
            f"{count_of(asked, 'held-out sample')} ({measured_by(self)}{variant})."
        )


def _said_of_variants(body: ModelExported) -> str:
    names = " and ".join(variant.name for variant in body.variants)
    said = f" It has the variants {names}." if names else ""
    return said + "".join(f" {reason[0].upper()}{reason[1:]}." for reason in body.left_out)


def measured_by(body: DeviceEvaluated) -> str:
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


def _mean_iou(body: DeviceEvaluated, at: EntryContext) -> str:
    evaluation = body.evaluation
    shares = [result.correct / result.total for result in evaluation.results.values()]
    mean = 100 * sum(shares) / max(len(shares), 1)
    return (
        f"On device {at.device} model {evaluation.version} has a mean IoU of {mean:.1f} % on the "
        f"pixels of held-out pictures, over {count_of(len(shares), 'class', 'classes')} with the "
        f"background ({measured_by(body)})."
    )
