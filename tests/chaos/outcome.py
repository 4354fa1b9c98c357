"""What a run left on the disks: the coordinator's ledger and every device's store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import fold
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.device_agent.home.store.rows import load_records
from fleetledger.schemas.values import ClassName, DeviceId, Digest

Images = Mapping[Digest, ClassName]
"""Images of a device by digest, and the class under which they count."""


@dataclass(frozen=True)
class Places:
    """Where the coordinator and the devices of one run keep their things."""

    coordinator: Path
    """The coordinator's home."""
    states: Mapping[DeviceId, Path]
    """State folder of every device."""


@dataclass(frozen=True)
class FleetOutcome:
    """What the ledger and the stores of one run say."""

    state: State
    """The coordinator's, made by replaying the ledger."""
    devices: Mapping[DeviceId, AgentRecords]

    @property
    def model(self) -> ModelVersion | None:
        """The newest model."""
        return self.state.models.newest

    def images(self, device: DeviceId) -> Images:
        """Return the images that a device's store counts for the current lineage."""
        lineage = self.state.lineages.current
        if lineage is None:
            return {}
        counted = self.devices[device].counted.get(lineage.digest, {})
        return {digest: item.class_name for digest, item in counted.items()}


def read_outcome(places: Places) -> FleetOutcome:
    """Read what a run left; its programs may still be there, but do nothing."""
    with LedgerReader.open_read_only(ledger_path(places.coordinator)) as ledger:
        state = replayed(ledger)
    return FleetOutcome(state, {name: _records(folder) for name, folder in places.states.items()})


def replayed(ledger: LedgerReader) -> State:
    """Return the coordinator's state as the entries give it."""
    state = State()
    fold(state, ledger.entries())
    return state


def numbers(names: Iterable[ClassName]) -> dict[ClassName, int]:
    """Count the images of each class."""
    counts: dict[ClassName, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


def _records(folder: Path) -> AgentRecords:
    with closing(sqlite3.connect(folder / "agent.db")) as database:
        return load_records(database)
