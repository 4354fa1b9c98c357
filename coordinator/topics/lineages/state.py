"""What the state knows of lineages: which one leads, and which one came of which."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleetledger.coordinator.topics.lineages import entries
from fleetledger.methods.training.private_updates import UpdatePrivacy
from fleetledger.schemas.privacy import Noise


@dataclass(frozen=True)
class Span:
    """A lineage for as long as it led: from the entry `index` on, until the next one began."""

    index: int
    parent: int | None
    """Index of the span whose trained network was frozen for this one."""


@dataclass
class LineagesState:
    """The lineage that leads, and those that led."""

    backbone: entries.BackboneImported | None = None
    """The lineage, where heads are solved on the features of a frozen model."""
    network: entries.NetworkImported | None = None
    """The lineage, where whole networks are trained in rounds."""
    spans: list[Span] = field(default_factory=list)
    had_proxy: bool = False
    """Whether any lineage had a proxy, for which the broker may keep an order."""
    changed: int = 0
    """Index of the entry that began the present one."""
    beneath: entries.BackboneImported | None = None
    """The frozen model on top of which the network that leads is an adapter; it leads again."""
    goes_on: bool = False
    """Whether what leads goes on with what there was: an adapter, or the frozen model beneath."""
    variants: entries.VariantSet | None = None
    """Variants of the frozen model that leads, or is beneath."""
    variants_index: int = -1
    """Index of the entry that made them, or ended them."""

    @property
    def current(self) -> entries.Lineage | None:
        """The lineage that leads."""
        return self.network if self.backbone is None else self.backbone

    @property
    def noise(self) -> Noise | None:
        """Differential privacy of parts of the lineage that leads; None for none."""
        lineage = self.current
        privacy = None if lineage is None else lineage.privacy
        return None if privacy is None else privacy.noise

    @property
    def answer_privacy(self) -> UpdatePrivacy | None:
        """How answers to rounds are clipped, and which noise hides them; None for neither."""
        return None if self.network is None else self.network.answer_privacy

    @property
    def in_rounds(self) -> bool:
        """Whether a network leads, which learns in rounds; where statistics are added up, none."""
        return self.current is not None and self.current.in_rounds

    @property
    def trained(self) -> entries.NetworkImported:
        """The network that rounds train: asked only where a network leads."""
        assert self.network is not None, "rounds train a network"
        return self.network

    @property
    def with_proxy(self) -> entries.NetworkImported | None:
        """The lineage that leads, where a proxy scores what comes of it."""
        lineage = self.current
        return self.network if lineage is not None and lineage.proxy else None

    @property
    def successor(self) -> entries.Successor | None:
        """What follows when the lineage that leads has learned its first stage."""
        return None if self.current is None else self.current.successor

    def begin(
        self,
        index: int,
        *,
        backbone: entries.BackboneImported | None = None,
        network: entries.NetworkImported | None = None,
    ) -> None:
        """Let another lineage lead; an adapter leaves everything about what is beneath."""
        self.goes_on = network is not None and network.adapts is not None
        self.beneath = self.backbone if self.goes_on else None
        self.backbone, self.network, self.changed = backbone, network, index
        if not self.goes_on:
            self.variants, self.variants_index = None, -1

    def lead_again(self, index: int) -> None:
        """Let the frozen model lead that is beneath an adapter, as it did before."""
        self.backbone, self.network, self.changed = self.beneath, None, index
        self.beneath, self.goes_on = None, True
