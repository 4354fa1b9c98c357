"""What every entry of the ledger is: a body with a kind, and who made it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

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
