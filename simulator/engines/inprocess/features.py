"""Features of the frozen model that leads, asked of the bank once per lineage."""

from __future__ import annotations

from collections.abc import Callable

from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.topics.lineages.entries import Lineage
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.schemas.values import Digest
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.features.interface import (
    FeatureBank,
    FrozenFeatures,
    FrozenModel,
    own_features,
)


class LineageFeatures:
    """Gives the features of a lineage by the digest of its frozen model."""

    def __init__(
        self, bank: FeatureBank, blobs: Blobs, lineage: Callable[[], Lineage | None]
    ) -> None:
        self._bank = bank
        self._blobs = blobs
        self._lineage = lineage
        self._known: dict[Digest, FrozenFeatures] = {}

    def __call__(self, frozen: Digest) -> FrozenFeatures:
        """Return the features of a frozen model; raise `EngineError` for one that does not lead."""
        if frozen not in self._known:
            self._known[frozen] = self._bank.frozen(self._model(frozen))
        return self._known[frozen]

    def _model(self, frozen: Digest) -> FrozenModel:
        lineage = self._lineage()
        if lineage is None or lineage.features != frozen:
            raise EngineError(f"frozen model {frozen.short} does not lead; begin a new run")
        if lineage.in_rounds:
            return own_features(self._blobs.get(frozen))
        side = statistics_coordinator(lineage.method)
        tail = side.feature_map(side.read_assignment(lineage.settings))
        return FrozenModel(self._blobs.get(frozen), tail.kind, tail.matrix, tail.feature_bits)
