"""What every entry of the ledger is: a body with a kind, and who made it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import DeviceId, Digest

OPERATOR = "operator"
COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class EntryContext:
    """Where an entry stands in the ledger, who made it, and when."""

    index: int
    device: DeviceId | None = None
    time_ns: int = 0

    @property
    def maker(self) -> DeviceId:
        """The device that made it; for kinds that devices alone make."""
        assert self.device is not None
        return self.device


class EntryBody(Strict, ABC):
    """What one entry records; `kind` names it in the ledger."""

    kind: ClassVar[str]

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """Digests of the blobs that must exist for as long as the entry is to be replayed."""
        return ()

    @abstractmethod
    def say(self, at: EntryContext) -> str:
        """Return the sentence that people read."""


@dataclass(frozen=True)
class NewEntry:
    """An entry that the rules have decided on and the shell is about to commit."""

    body: EntryBody
    actor: str
    device: DeviceId | None = None


class RunText(NamedTuple):
    """Canonical JSON of the bodies of a run, as `ledger.runs.EntryRun` has it."""

    pieces: tuple[str, ...]
    columns: tuple[Sequence[str], ...]
    blobs: int
    """Number of the column whose digests are the entries' blobs."""


class NewRun(ABC):
    """Entries of one kind, each made by a device about itself, that were decided on together."""

    kind: ClassVar[str]
    devices: tuple[DeviceId, ...]

    @property
    @abstractmethod
    def entries(self) -> Iterator[NewEntry]:
        """The entries one by one."""

    @abstractmethod
    def text(self) -> RunText:
        """Return their bodies' canonical JSON."""
