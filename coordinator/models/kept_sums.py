"""Sums of contributions, kept beside the ledger: after a start only newer ones are added.

    sums/<size>.state      a line of JSON as of every kept state, then the sum

A kept sum is a cache like a kept state, under the same conditions: signed by the coordinator's own
key, of this ledger's root at its size, and by the same program. Whatever is wrong with one, the
payloads give the sum.
"""

from __future__ import annotations

import hashlib
import logging
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fleetledger import learning, methods, schemas
from fleetledger.coordinator.core.saved_state import folding_program
from fleetledger.coordinator.errors import SnapshotError
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.snapshots import StateSnapshots
from fleetledger.coordinator.models.sum_bytes import read_sum, write_sum
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.methods.statistics.sides import ExactAggregate
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.values import Digest

log = logging.getLogger("coordinator.models.kept_sums")

_SUM = "sum"
EVERY = 500
"""Contributions that move before a sum is kept again: so many are added after a start at most,
unless the sum is larger than their payloads."""


class KeptSum(NamedTuple):
    """The sum of a lineage's contributions that counted at a size of the ledger."""

    size: int
    total: ExactAggregate


class KeptSums:
    """Sums kept beside the ledger of a home."""

    def __init__(self, ledger_file: Path, key: SigningKey | None) -> None:
        """Use the coordinator's own key; without one nothing is kept."""
        self._file = ledger_file
        self._key = key
        self._parts = 0
        self._bytes = 0
        self._last_bytes = 0

    def newest(self, ledger: LedgerReader, lineage: BackboneImported, size: int) -> KeptSum | None:
        """Return the newest sum of a lineage that is kept, of at most so many entries."""
        if self._key is None:
            return None
        snapshots = self._of(lineage)
        for path in snapshots.files():
            if int(path.stem) > size:
                continue
            try:
                stored = snapshots.read(path, ledger)
                data = stored.part(_SUM)
            except SnapshotError as error:
                log.info("%s: not used, payloads are added instead: %s", path, error)
                continue
            self._parts, self._bytes, self._last_bytes = 0, 0, len(data)
            return KeptSum(stored.head.size, read_sum(data))
        return None

    def moved(self, payload_bytes: int) -> None:
        """Note that a payload of so many bytes was added or subtracted."""
        self._parts += 1
        self._bytes += payload_bytes

    def keep(self, ledger: LedgerReader, lineage: BackboneImported, kept: KeptSum) -> None:
        """Keep a sum, if enough has moved since the last one."""
        if self._key is None or self._parts < EVERY or self._bytes < self._last_bytes:
            return
        data = write_sum(kept.total)
        self._parts, self._bytes, self._last_bytes = 0, 0, len(data)
        try:
            self._of(lineage).write({_SUM: data}, ledger, kept.size)
        except SnapshotError as error:
            log.warning("the sum was not kept: %s", error)

    def _of(self, lineage: BackboneImported) -> StateSnapshots:
        return StateSnapshots(self._file, _program(lineage), self._key, folder="sums")


def _program(lineage: BackboneImported) -> Digest:
    """Return the digest of everything that a sum follows from beside the entries."""
    told = canonical_json(lineage.model_dump(mode="json"))
    return Digest.of(f"{_programs()} {np.__version__}\n".encode() + told)


@cache
def _programs() -> str:
    hasher = hashlib.sha256(folding_program().encode())
    for package in (learning, methods, schemas):
        (root,) = map(Path, package.__path__)
        for path in sorted(root.rglob("*.py")):
            hasher.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return hasher.hexdigest()
