"""Contributions of which somebody has to be told: left out of the sum, or set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.topics.contributions.entries import ContributionsSetAside


@dataclass(frozen=True)
class LeftOutRow:
    """A device that meets the bound on what one may weigh, with a sentence on how."""

    device: str
    index: int
    text: str


def left_out(home: Path) -> list[str]:
    """Return what is left out of the sum because a device gave more than its share, in words."""
    with ledger_of(home) as ledger:
        return [row.text for row in left_out_in(ledger)]


def left_out_in(ledger: LedgerReader) -> list[LeftOutRow]:
    """Return who meets the bound on what one device may weigh, by name."""
    bounded = sorted(state_of(ledger).contributions.bounded.items())
    said = zip(bounded, ledger.at(index for _, index in bounded), strict=True)
    return [LeftOutRow(device, index, of.body["devices"][device]) for (device, index), of in said]


@dataclass(frozen=True)
class SetAsideRow:
    """Contributions of a device that one entry set aside."""

    device: str
    index: int
    parts: int
    why: str
    """The reason with its figures and their limits."""


def set_aside_in(ledger: LedgerReader) -> list[SetAsideRow]:
    """Return what waits for the operator, by device."""
    counted = state_of(ledger).contributions.counted
    parts = Counter((counted[i].device, at) for i, at in counted.set_aside.items())
    why = why_aside(ledger, counted.set_aside)
    first = {(counted[i].device, at): why[i] for i, at in counted.set_aside.items()}
    return [
        SetAsideRow(device, at, count, first[device, at])
        for (device, at), count in sorted(parts.items())
    ]


def why_aside(ledger: LedgerReader, aside: Mapping[int, int]) -> dict[int, str]:
    """Return why contributions are set aside, each by the entry that `aside` names."""
    found = {
        (one.index, index): body.why(part)
        for one in ledger.at({*aside.values()})
        for body in [ContributionsSetAside.model_validate(one.body)]
        for part in body.set_aside
        for index in part.indices
    }
    return {index: found[at, index] for index, at in aside.items()}
