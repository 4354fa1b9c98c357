"""What devices sent and received of each kind in a stage, as the ledger tells it.

Sent are the payloads of accepted contributions. Received are the files that orders name: the
fleet's weights, and extras, which are of the kind of the phase that gave them. A device fetches a
file once in a stage. Messages, block requests and models that are installed are not in it; the
transport counts these.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.entries import LINEAGE_KINDS
from fleetledger.coordinator.topics.rounds.entries import (
    CohortContinued,
    RoundOpened,
    WeightsAveraged,
)
from fleetledger.coordinator.topics.stages.entries import StageOpened
from fleetledger.methods.descriptor import Descriptor
from fleetledger.methods.registry import descriptor
from fleetledger.methods.training import SHARED
from fleetledger.schemas.contributions import PayloadKind
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import DeviceId, Digest

WEIGHTS: PayloadKind = "weights"
IMAGES: PayloadKind = "images"


@dataclass
class KindTraffic:
    """Of one device in one stage, or in several."""

    sent: Counter[str] = field(default_factory=Counter)
    """Bytes by kind."""
    received: Counter[str] = field(default_factory=Counter)
    shared_images: int = 0
    """Images that it sent."""

    def add(self, other: KindTraffic) -> None:
        """Take in those of another stage."""
        self.sent += other.sent
        self.received += other.received
        self.shared_images += other.shared_images


@dataclass
class KindTrafficCount:
    """Follows a ledger from its beginning."""

    _descriptor: Descriptor | None = field(init=False, default=None)
    _found: dict[tuple[DeviceId, int], KindTraffic] = field(
        init=False, default_factory=lambda: defaultdict(KindTraffic)
    )
    _held: dict[DeviceId, set[Digest]] = field(init=False, default_factory=lambda: defaultdict(set))
    _kinds: dict[Digest, PayloadKind] = field(init=False, default_factory=dict)
    """Of files that orders may name."""
    _phases: dict[int, str] = field(init=False, default_factory=dict)
    _stage: int = field(init=False, default=0)
    """Of the newest order."""
    _files: list[tuple[Offer, PayloadKind]] = field(init=False, default_factory=list)
    """Those that it names."""

    def apply(self, body: EntryBody, device: DeviceId | None) -> None:
        """Take in the next entry."""
        match body:
            case _ if isinstance(body, LINEAGE_KINDS):
                self._descriptor = descriptor(body.method)
            case StageOpened():
                self._held.clear()
            case RoundOpened():
                self._order(body)
            case CohortContinued():
                self._receive(body.devices)
            case WeightsAveraged():
                self._give(body)
            case ContributionAccepted() if device is not None:
                self._accept(body, device)

    def of(self, device: DeviceId, stages: Collection[int]) -> KindTraffic:
        """Return what a device sent and received in some stages of the ledger."""
        total = KindTraffic()
        for stage in stages:
            if (device, stage) in self._found:
                total.add(self._found[device, stage])
        return total

    def _order(self, opened: RoundOpened) -> None:
        self._phases[opened.number] = opened.phase
        self._kinds[opened.weights.digest] = WEIGHTS
        files = [(offer, self._kind(name, offer)) for name, offer in opened.extras.items()]
        self._files = [(opened.weights, WEIGHTS), *files]
        self._stage = opened.stage
        self._receive((*opened.cohort, *opened.observers))

    def _receive(self, devices: Iterable[DeviceId]) -> None:
        """Let devices fetch what the newest order names."""
        for device in devices:
            parcels, held = self._found[device, self._stage], self._held[device]
            for offer, kind in self._files:
                if offer.digest not in held:
                    held.add(offer.digest)
                    parcels.received[kind] += offer.size

    def _kind(self, name: str, offer: Offer) -> PayloadKind:
        """Return the kind of an extra; one of an earlier stage is images or a model."""
        return self._kinds.get(offer.digest, IMAGES if name == SHARED else WEIGHTS)

    def _give(self, averaged: WeightsAveraged) -> None:
        phase = self._phases.get(averaged.number)
        self._kinds[averaged.weights.digest] = WEIGHTS
        if phase is None or self._descriptor is None:
            return
        kind = self._descriptor.kind_of(phase)
        for offer in averaged.extras.values():
            self._kinds.setdefault(offer.digest, kind)

    def _accept(self, accepted: ContributionAccepted, device: DeviceId) -> None:
        parcels = self._found[device, accepted.key.stage]
        parcels.sent[accepted.payload_kind] += accepted.payload_bytes
        if accepted.payload_kind == IMAGES and accepted.answer is not None:
            parcels.shared_images += accepted.answer.samples
