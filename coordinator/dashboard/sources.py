"""What a page is made from: the ledger, what is known just now, and the time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import StateKeeper, state_of
from fleetledger.coordinator.dashboard.inspection import InspectionNow
from fleetledger.coordinator.dashboard.verification import VerificationNow
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live import snapshot
from fleetledger.coordinator.live.file import read_day, read_live
from fleetledger.runtime.errors import FleetledgerError

DAY_NS = 86_400 * 10**9
_Point = TypeVar("_Point", snapshot.HealthPoint, snapshot.FleetHeat, snapshot.TrafficPoint)


class NotThereError(FleetledgerError):
    """What a page was asked about is not there; the text says what, and where to look."""


@dataclass(frozen=True)
class Sources:
    """One state of everything that a page reads."""

    home: Path
    ledger: LedgerReader
    """Read-only, and the same throughout a page."""
    live: snapshot.LiveSnapshot | None
    """None where no coordinator has served yet."""
    now_ns: int
    verification: VerificationNow | None = None
    """The last verification of the ledger that was asked for here; None before the first."""
    inspection: InspectionNow | None = None
    """The last inspection that was asked for here; None before the first."""

    @property
    def state(self) -> State:
        """State of the ledger; raises `LedgerError` for one that cannot be folded."""
        return state_of(self.ledger)

    def day(self, read: Callable[[sqlite3.Connection], list[_Point]]) -> tuple[_Point, ...]:
        """Return what `read` finds of the day before now; a coordinator may have ended long ago."""
        since_ns = self.now_ns - DAY_NS
        return tuple(point for point in read_day(self.home, read) if point.time_ns > since_ns)


@dataclass(frozen=True)
class Asked:
    """What an address says beside the name of its page."""

    path: Mapping[str, str] = field(default_factory=dict)
    """Its parts, such as the name of a device."""
    query: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def open_sources(
    states: StateKeeper,
    now_ns: Callable[[], int],
    verification: VerificationNow | None = None,
    inspection: InspectionNow | None = None,
) -> Iterator[Sources]:
    """Open what pages are made from, for one page; raise `LedgerError` where there is none."""
    with states.reading() as ledger:
        live = read_live(states.home)
        yield Sources(states.home, ledger, live, now_ns(), verification, inspection)


_DIGITS = 18


def count_of(text: str | None) -> int | None:
    """Return a number from 0 on; None where the text is none, or too long to be one."""
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        return None
    return int(text)


def number_in_path(asked: Asked, name: str, what: str) -> int:
    """Return the number in an address; raise `NotThereError` where it is none."""
    found = count_of(asked.path[name])
    if found is None:
        raise NotThereError(f"{asked.path[name][:40]} is not the number of a {what}.")
    return found
