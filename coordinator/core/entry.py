"""What every entry of the ledger is: a body with a kind, and who made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fleetledger.schemas.message import Strict
from fleetledger.schemas.values import DeviceId, Digest

OPERATOR = "operator"
COORDINATOR = "coordinator"


class EntryBody(Strict):
    """What one entry records; `kind` names it in the ledger."""

    kind: ClassVar[str]

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """Digests of the blobs that must exist for as long as the entry is to be replayed."""
        return ()


@dataclass(frozen=True)
class NewEntry:
    """An entry that the rules have decided on and the shell is about to commit."""

    body: EntryBody
    actor: str
    device: DeviceId | None = None
