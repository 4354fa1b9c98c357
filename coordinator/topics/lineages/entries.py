"""What begins a lineage: a frozen model, or a network that is trained."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.phrases import files, names_of
from fleetledger.methods.training.private_updates import UpdatePrivacy
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.privacy import Noise, Privacy
from fleetledger.schemas.requirements import MAX_REQUIREMENTS, Requirement
from fleetledger.schemas.rollouts import Share
from fleetledger.schemas.rounds import TRAIN, ExtraName, PhaseName
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.schemas.variants import MAX_VARIANTS, VariantName


class BackboneImported(EntryBody):
    """A frozen model was imported; it begins a lineage of heads."""

    kind: ClassVar[str] = "backbone.imported"
    name: str
    frozen: Offer
    golden: Offer
    preprocessing: AnyPreprocessing
    backbone_width: int = Field(ge=1)
    """Features of the backbone, before the random map."""
    feature_width: int = Field(ge=1)
    """Features that the frozen model puts out."""
    method: str
    settings: dict[str, Any]
    """The method's assignment: what its device side is given."""
    max_samples_per_part: int = Field(default=10_000, ge=1)
    min_samples_per_class: int = Field(default=1, ge=1)
    """Fewest images of a class that a part may have."""
    remarks: tuple[str, ...] = Field(default=(), max_length=16, exclude_if=is_absent)
    """What the operator should know of the file, a sentence each."""
    requires: tuple[Requirement, ...] = Field(
        default=(), max_length=MAX_REQUIREMENTS, exclude_if=is_absent
    )
    """The method, where it is not fleetledger's own, and the distribution that has it."""
    class_names: ClassVar[tuple[ClassName, ...]] = ()
    """Its head begins without rows."""
    in_rounds: ClassVar[bool] = False
    """Its heads are solved from statistics."""
    segments: ClassVar[bool] = False
    """No head gives every pixel a class."""
    proxy: ClassVar[bool] = False
    """Nobody scores a head but the devices."""
    successor: ClassVar[None] = None
    """Statistics go on for as long as the frozen model leads."""
    backbone: ClassVar[None] = None
    """It is one itself."""
    base: ClassVar[None] = None
    """Nothing of it is trained."""
    phases: ClassVar[tuple[PhaseName, ...]] = ()
    """Devices send statistics, in no round."""
    adapts: ClassVar[None] = None
    """It goes on top of nothing."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The frozen model and its golden batch."""
        return (self.frozen.digest, self.golden.digest)

    @property
    def digest(self) -> Digest:
        """The lineage's name."""
        return self.frozen.digest

    @property
    def features(self) -> Digest | None:
        """The frozen model whose features devices compute."""
        return self.frozen.digest

    @property
    def privacy(self) -> Privacy | None:
        """Noise of its parts, which stands in the method's assignment."""
        noise = self.settings.get("noise")
        return None if noise is None else Privacy(noise=Noise.model_validate(noise))

    def say(self, at: EntryContext) -> str:
        return (
            f"Frozen model {self.frozen.digest.short} ({self.name}) leads: {self.backbone_width} "
            f"backbone features become {self.feature_width}, learned with {self.method}."
            + _requires(self.requires)
            + "".join(f" Note: {remark}." for remark in self.remarks)
            + ("" if self.privacy is None else f" {self.privacy.said}")
        )


class Successor(Strict):
    """What follows when a network has learned its first stage: it freezes, statistics begin."""

    method: str
    settings: dict[str, Any]
    """The operator's settings of that method."""
    requires: tuple[Requirement, ...] = Field(
        default=(), max_length=MAX_REQUIREMENTS, exclude_if=is_absent
    )
    """The method, where it is not fleetledger's own; nobody needs it before the network freezes."""
    noise: Noise | None = Field(default=None, exclude_if=is_absent)
    """Differential privacy of its statistics."""


class FrozenBackbone(Strict):
    """A frozen model on whose features a network is trained."""

    name: str
    frozen: Offer
    feature_width: int = Field(ge=1)


class Adapts(Strict):
    """What an adapter is trained on top of, and who has no part in it."""

    version: int = Field(ge=1)
    """The model as which it begins; the frozen model beneath leads again after the stage."""
    judges: Share
    """Devices that no round asks, so that they can measure what they did not make."""


class NetworkImported(EntryBody):
    """A network was imported that the fleet trains in rounds; it begins a lineage."""

    kind: ClassVar[str] = "network.imported"
    in_rounds: ClassVar[bool] = True
    privacy: ClassVar[None] = None
    """Noise of rounds is the method's."""
    frozen: ClassVar[None] = None
    """No head is solved on a frozen model's features."""
    max_samples_per_part: ClassVar[None] = None
    """Networks see their images in batches, so nothing bounds them but the schema."""
    min_samples_per_class: ClassVar[int] = 1
    name: str
    weights: Offer
    """Its first parameters and buffers, as safetensors."""
    class_names: tuple[ClassName, ...] = ()
    """Rows that the head of these has; none where nobody trained them before."""
    extras: dict[ExtraName, Offer] = Field(default_factory=dict)
    """Further files that devices are given from the start, such as public images."""
    golden: Offer
    """Preprocessed images or texts for the self-test of exported models."""
    preprocessing: AnyPreprocessing
    method: str
    settings: dict[str, Any]
    """The method's assignment: what its sides are given."""
    opening_phases: tuple[PhaseName, ...] = ()
    """What devices do once before a stage's rounds."""
    round_phases: tuple[PhaseName, ...] = (TRAIN,)
    """What devices do in one of a stage's rounds, one after the other."""
    closing_phases: tuple[PhaseName, ...] = ()
    """What devices do once after a stage's rounds."""
    first_weights_suffice: bool = False
    """Whether a stage needs no rounds whose classes are all among `class_names`."""
    successor: Successor | None = None
    backbone: FrozenBackbone | None = None
    """Where the network sees features; None where it sees the pictures themselves."""
    base: Offer | None = None
    """The network's tensors that nobody trains, as safetensors; None where all are trained."""
    observes: bool = False
    """Whether devices that a round does not ask to train are asked to look at their images."""
    proxy: bool = False
    """Whether a proxy scores what rounds give, and chooses the old models that devices get."""
    segments: bool = False
    """Whether it gives every pixel of a picture a class: the background, or one of the fleet's."""
    answer_privacy: UpdatePrivacy | None = Field(default=None, exclude_if=is_absent)
    """How answers to rounds are clipped, and which noise hides them; None for neither."""
    adapts: Adapts | None = Field(default=None, exclude_if=is_absent)
    """Where it is an adapter on top of a model that was solved."""
    remarks: tuple[str, ...] = Field(default=(), max_length=16, exclude_if=is_absent)
    """What the operator should know of the file, a sentence each."""
    requires: tuple[Requirement, ...] = Field(
        default=(), max_length=MAX_REQUIREMENTS, exclude_if=is_absent
    )
    """Method and network, where they are not fleetledger's own, and the distributions that have
    them."""

    @property
    def least_answers(self) -> int:
        """Answers without which a round comes to nothing, whatever its quorum is."""
        return 1 if self.answer_privacy is None else self.answer_privacy.least

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The golden batch, and what names the lineage."""
        return (*self._names, self.golden.digest)

    @property
    def digest(self) -> Digest:
        """The lineage's name: the first weights, and what they are trained on where that is given.

        Equal first weights on another backbone or base, or with other files, are another network.
        """
        if self.backbone is None and self.base is None and not self.extras:
            return self.weights.digest  # asked several times for every answer
        weights, *others = self._names
        return Digest.of("".join((weights, *others)).encode("ascii")) if others else weights

    @property
    def features(self) -> Digest | None:
        """The frozen model whose features devices compute; None where they see the pictures."""
        return None if self.backbone is None else self.backbone.frozen.digest

    @property
    def phases(self) -> tuple[PhaseName, ...]:
        """Every phase that orders may ask for, once."""
        return (*self.opening_phases, *self.round_phases, *self.closing_phases)

    @property
    def _names(self) -> tuple[Digest, ...]:
        backbone = None if self.backbone is None else self.backbone.frozen
        extras = (self.extras[name] for name in sorted(self.extras))
        offers = (self.weights, backbone, self.base, *extras)
        return tuple(offer.digest for offer in offers if offer is not None)

    def say(self, at: EntryContext) -> str:
        after = ""
        if self.successor is not None:
            after = (
                f" After its first stage it freezes, and {self.successor.method} goes on with it."
            )
        pixels = " It gives every pixel a class, or the background." if self.segments else ""
        proxy = " A proxy scores what comes of it and chooses old models." if self.proxy else ""
        what = "it whole"
        if self.base is not None:
            what = f"it, all but the tensors in {self.base.digest.short}"
        elif (seen := self.backbone) is not None:
            what = (
                f"it on the {count_of(seen.feature_width, 'feature')} of frozen model "
                f"{seen.frozen.digest.short} ({seen.name})"
            )
        if self.adapts is not None:
            after = (
                f" It begins as model {self.adapts.version}, and devices in "
                f"{self.adapts.judges.percent} of all places have no part in it."
            )
        return (
            f"Network {self.digest.short} ({self.name}) leads: devices train {what}, in "
            f"rounds, with {self.method}.{pixels}{_phases(self)}{_begins(self)}{after}{proxy}"
            + _requires(self.requires)
            + "".join(f" Note: {remark}." for remark in self.remarks)
        )


class MadeVariant(Strict):
    """A variant of a lineage's frozen part: its file, and how far its features stray."""

    name: VariantName
    frozen: Offer
    strays: float = Field(ge=0)
    """Length of the difference to the reference's features, as a share of their own length."""


class VariantSet(Strict):
    """Variants of a frozen model, and how they were made."""

    lineage: Digest
    """The frozen model that they are variants of."""
    variants: tuple[MadeVariant, ...] = Field(max_length=MAX_VARIANTS)
    features: Digest | None = None
    """What heads are measured by: features of samples, as a blob; None where there are none."""
    calibrated: int = Field(default=0, ge=0)
    """Images that ranges were measured on."""
    held_out: int = Field(default=0, ge=0)
    """Other images, that heads are measured on."""
    tools: dict[str, str] = Field(default_factory=dict)
    """What made the files, with versions: equal images give equal files with equal ones."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The files, and what heads are measured by."""
        measured = () if self.features is None else (self.features,)
        return (*(variant.frozen.digest for variant in self.variants), *measured)


class VariantsMade(VariantSet, EntryBody):
    """The variants that there are of the leading frozen model from here on; none ends them."""

    kind: ClassVar[str] = "lineage.variants"

    def say(self, at: EntryContext) -> str:
        if not self.variants:
            return f"Frozen model {self.lineage.short} has no variants any more."
        made = ", ".join(
            f"{item.name} {item.frozen.digest.short} ({item.frozen.size:,} bytes, features stray "
            f"by {item.strays:.1%})"
            for item in self.variants
        )
        return (
            f"Frozen model {self.lineage.short} has variants: {made}; calibrated on "
            f"{count_of(self.calibrated, 'image')}, measured on {count_of(self.held_out, 'other')}."
        )


Lineage = BackboneImported | NetworkImported
LINEAGE_KINDS: tuple[type[Lineage], ...] = (BackboneImported, NetworkImported)


def _requires(requires: tuple[Requirement, ...]) -> str:
    """Say whose the method and the network are, where they are not fleetledger's own."""
    return "".join(f" {str(each)[:1].upper()}{str(each)[1:]}." for each in requires)


def _phases(body: NetworkImported) -> str:
    """Say what devices are asked to do, where that is more than to train."""
    several = ", then ".join(body.round_phases)
    said = f" A round has the phases {several}." if len(body.round_phases) > 1 else ""
    if body.opening_phases:
        said += f" Before a stage's rounds: {names_of(body.opening_phases)}."
    if body.closing_phases:
        said += f" After them: {names_of(body.closing_phases)}."
    return said


def _begins(body: NetworkImported) -> str:
    """Say what the operator gave to begin with."""
    said = ""
    if body.class_names:
        rounds = ", which need no rounds" if body.first_weights_suffice else ""
        said = f" Its first weights know {names_of(body.class_names)}{rounds}."
    return said + (f" Every device gets {files(body.extras)}." if body.extras else "")
