"""The kinds of ledger entry that begin a lineage: a frozen model, or a network that is trained."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from coordinator.core.entry import EntryBody
from schemas.message import Strict
from schemas.models import AnyPreprocessing
from schemas.offers import Offer
from schemas.rounds import TRAIN, ExtraName, PhaseName
from schemas.values import ClassName, Digest


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
    """The method's assignment: what its device half is given."""
    max_samples_per_part: int = Field(default=10_000, ge=1)
    min_samples_per_class: int = Field(default=1, ge=1)
    """Fewest images of a class that a part may have."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The frozen model and its golden batch."""
        return (self.frozen.digest, self.golden.digest)

    @property
    def digest(self) -> Digest:
        """The lineage's name."""
        return self.frozen.digest


class Successor(Strict):
    """What follows when a network has learned its first stage: it freezes, statistics begin."""

    method: str
    settings: dict[str, Any]
    """The operator's settings of that method."""


class FrozenBackbone(Strict):
    """A frozen model on whose features a network is trained."""

    name: str
    frozen: Offer
    feature_width: int = Field(ge=1)


class NetworkImported(EntryBody):
    """A network was imported that the fleet trains in rounds; it begins a lineage."""

    kind: ClassVar[str] = "network.imported"
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
    """The method's assignment: what its halves are given."""
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
    def phases(self) -> tuple[PhaseName, ...]:
        """Every phase that orders may ask for, once."""
        return (*self.opening_phases, *self.round_phases, *self.closing_phases)

    @property
    def _names(self) -> tuple[Digest, ...]:
        backbone = None if self.backbone is None else self.backbone.frozen
        extras = (self.extras[name] for name in sorted(self.extras))
        offers = (self.weights, backbone, self.base, *extras)
        return tuple(offer.digest for offer in offers if offer is not None)


Lineage = BackboneImported | NetworkImported
