"""What orders had devices fetch, by kind: the fleet's weights, and extras.

An extra is of the kind of the phase that gave it. A device fetches a file once in a stage. The
transport counts messages, block requests and models that are installed; they are not in it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.lineages.entries import LINEAGE_KINDS
from fleetledger.coordinator.topics.rounds.entries import (
    CohortContinued,
    RoundOpened,
    WeightsAveraged,
)
from fleetledger.methods.descriptor import Descriptor
from fleetledger.methods.registry import descriptor
from fleetledger.methods.training.exchange import SHARED
from fleetledger.schemas.contributions import PayloadKind
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import DeviceId, Digest

WEIGHTS: PayloadKind = "weights"
IMAGES: PayloadKind = "images"
_READ = (*LINEAGE_KINDS, RoundOpened, CohortContinued, WeightsAveraged)


class FetchedFiles:
    """Reads the orders of a ledger, from its beginning on."""

    def __init__(self, ledger: LedgerReader) -> None:
        self._ledger = ledger
        self._descriptor: Descriptor | None = None
        self._kinds: dict[Digest, PayloadKind] = {}
        """Of files that orders may name."""

    def read(self, start: int, stop: int) -> Mapping[tuple[DeviceId, int], Counter[str]]:
        """Return the bytes that each device fetched for each stage, by kind.

        Whole stages lie between `start` and `stop`, which goes on where the last call ended.
        """
        found: dict[tuple[DeviceId, int], Counter[str]] = defaultdict(Counter)
        fetched: set[tuple[DeviceId, int, Digest]] = set()
        stage, files = 0, dict[Offer, PayloadKind]()
        for entry in self._ledger.find(*_READ, start=start, stop=stop):
            devices: tuple[DeviceId, ...] = ()
            match read_entry(entry.kind, entry.body):
                case RoundOpened() as opened:
                    stage, files = opened.stage, self._named(opened)
                    devices = (*opened.cohort, *opened.observers)
                case CohortContinued() as more:
                    devices = more.devices
                case WeightsAveraged() as averaged:
                    self._give(averaged)
                case body if isinstance(body, LINEAGE_KINDS):
                    self._descriptor = descriptor(body.method)
            for device in devices:
                for offer, kind in files.items():
                    if (device, stage, offer.digest) not in fetched:
                        fetched.add((device, stage, offer.digest))
                        found[device, stage][kind] += offer.size
        return found

    def _named(self, opened: RoundOpened) -> dict[Offer, PayloadKind]:
        """Return the files of an order; an extra of an earlier stage is images or a model."""
        self._kinds[opened.weights.digest] = WEIGHTS
        extras = {
            offer: self._kinds.get(offer.digest, IMAGES if name == SHARED else WEIGHTS)
            for name, offer in opened.extras.items()
        }
        return {opened.weights: WEIGHTS, **extras}

    def _give(self, averaged: WeightsAveraged) -> None:
        self._kinds[averaged.weights.digest] = WEIGHTS
        if self._descriptor is not None:
            kind = self._descriptor.kind_of(averaged.phase)
            for offer in averaged.extras.values():
                self._kinds.setdefault(offer.digest, kind)
