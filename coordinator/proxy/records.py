"""What a proxy remembers, and the changes to it: each is one thing that the store writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.proxy import Scored
from fleetledger.schemas.receipts import Accepted, Refused
from fleetledger.schemas.values import DeviceId, Digest

Final: TypeAlias = Accepted | Refused


@dataclass(frozen=True)
class Name:
    """Names a message with gradients without its device; repeats have the same."""

    key: PartKey
    payload: Digest


@dataclass(frozen=True)
class HeldGradients:
    """Gradients of a device: here, then answered, then used."""

    name: Name
    device: DeviceId | None
    """Who gets the receipt; forgotten when no receipt is due and no score."""
    method: str
    lineage: Digest
    size: int
    """Bytes that still lie here; 0 once they were used or refused."""
    answer: Final | None = None
    """None until an order has told what the gradients should look like."""


@dataclass(frozen=True)
class ScoredOrder:
    """The last order that was scored, and what came of it."""

    answer: Scored
    key: PartKey
    """Stage and round of the order; the coordinator's receipt names it."""
    lineage: Digest
    weights: Digest
    task: int
    """Stage whose pictures lie in the pool; 0 before any."""


@dataclass
class ProxyRecords:
    """All of it, but for the bytes: payloads of messages, and the method's state."""

    gradients: dict[Name, HeldGradients] = field(default_factory=dict)
    scored: ScoredOrder | None = None

    @property
    def waiting_bytes(self) -> int:
        """Bytes of gradients that lie here."""
        return sum(held.size for held in self.gradients.values())


@dataclass(frozen=True)
class GradientsKept:
    """Gradients came; nothing is acknowledged yet."""

    held: HeldGradients
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class GradientsAnswered:
    """Gradients were checked. Of those that are refused neither bytes nor device stay."""

    name: Name
    answer: Final


@dataclass(frozen=True)
class OrderScored:
    """A model was scored; of the gradients that it took neither bytes nor devices stay."""

    scored: ScoredOrder
    state: bytes = field(repr=False)
    used: tuple[Name, ...]


Change: TypeAlias = "GradientsKept | GradientsAnswered | OrderScored"


def apply(records: ProxyRecords, change: Change) -> None:
    """Bring the records in memory up to a change that is on the disk."""
    match change:
        case GradientsKept(held):
            records.gradients[held.name] = held
        case GradientsAnswered(name, answer):
            held = records.gradients[name]
            accepted = isinstance(answer, Accepted)
            records.gradients[name] = HeldGradients(
                name,
                held.device if accepted else None,
                held.method,
                held.lineage,
                held.size if accepted else 0,
                answer,
            )
        case OrderScored(scored, _, used):
            records.scored = scored
            for name in used:
                old = records.gradients[name]
                records.gradients[name] = HeldGradients(
                    name, None, old.method, old.lineage, 0, old.answer
                )
