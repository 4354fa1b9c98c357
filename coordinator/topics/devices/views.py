"""Devices, as commands and pages ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.devices.choice import DeviceChoice, chosen
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.schemas.values import DeviceId


@dataclass(frozen=True)
class EarlierRow:
    """A device with parts of earlier installations that nobody has decided about."""

    device: str
    parts: int
    samples: int
    index: int
    """The newest of their entries."""


def earlier_in(ledger: LedgerReader) -> list[EarlierRow]:
    """Return them, by name."""
    state = state_of(ledger)
    given, found = state.contributions, []
    for name, device in sorted(state.devices.admitted.items()):
        indices = [part.index for part in given.of(name).earlier(device.installation).values()]
        samples = sum(sum(given.counted[index].samples.values()) for index in indices)
        if indices:
            found.append(EarlierRow(name, len(indices), samples, max(indices)))
    return found


def birth(ledger: LedgerReader, index: int) -> DeviceBorn:
    """Return what a device said of itself when it began a run, as the entry has it."""
    return DeviceBorn.model_validate(ledger.entry(index).body)


def chosen_in(ledger: LedgerReader, choice: DeviceChoice) -> tuple[DeviceId, ...]:
    """Return the devices that are meant; raise `CommandError` where nobody is."""
    return chosen(choice, state_of(ledger).devices.tags)


def keys(home: Path) -> dict[DeviceId, str]:
    """Return the admitted devices by name, each with the text of its key."""
    with ledger_of(home) as ledger:
        state = state_of(ledger)
    return {name: state.keys.of(name).text for name in sorted(state.devices.admitted)}


def retired_names(home: Path) -> list[DeviceId]:
    """Return the names of devices that were retired."""
    with ledger_of(home) as ledger:
        return sorted(state_of(ledger).devices.retired)
