"""What a proxy remembers, and the changes to it: each is one thing that the store writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.proxy import Scored, ScoringOrder
from fleetledger.schemas.receipts import Accepted, Refused
from fleetledger.schemas.values import DeviceId, Digest


@dataclass(frozen=True)
class Name:
    """Names a message with gradients without its device; repeats have the same."""

    key: PartKey
    payload: Digest

    def __str__(self) -> str:
        return f"{self.key.stage}-{self.key.part}-{self.payload}"


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
    answer: Accepted | Refused | None = None
    """None until an order has told what the gradients should look like."""

    def answered(self, answer: Accepted | Refused) -> HeldGradients:
        """Return these with an answer; of refused ones neither bytes nor device stay."""
        kept = self if isinstance(answer, Accepted) else self.forgotten()
        return replace(kept, answer=answer)

    def forgotten(self) -> HeldGradients:
        """Return what stays once neither bytes nor device are needed."""
        return replace(self, device=None, size=0)


@dataclass(frozen=True)
class ScoredOrder:
    """The last order that was scored, and what came of it."""

    order: ScoringOrder
    answer: Scored
    task: int
    """Stage whose pictures lie in the pool; 0 before any."""

    @property
    def key(self) -> PartKey:
        """Stage and round of the order; the coordinator's receipt names it."""
        return PartKey(stage=self.order.stage, part=self.order.round)

    def answers(self, order: ScoringOrder | None) -> bool:
        """Return whether this is the order that was scored."""
        mine = self.order
        return order is not None and (mine.action, mine.weights.digest) == (
            order.action,
            order.weights.digest,
        )


@dataclass(frozen=True)
class GradientsStored:
    """Gradients as they are from here on; `data` are the bytes of those that came."""

    held: HeldGradients
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class OrderScored:
    """A model was scored by the gradients that are named, and left the method's state."""

    scored: ScoredOrder
    state: bytes = field(repr=False)
    used: tuple[Name, ...]


Change: TypeAlias = GradientsStored | OrderScored


@dataclass
class ProxyRecords:
    """All of it, but for the bytes: payloads of messages, and the method's state."""

    gradients: dict[Name, HeldGradients] = field(default_factory=dict)
    scored: ScoredOrder | None = None

    def scored_of(self, lineage: Digest) -> ScoredOrder | None:
        """Return the last order that was scored, if it is of this network."""
        scored = self.scored
        return scored if scored is not None and scored.order.lineage == lineage else None

    def apply(self, change: Change) -> None:
        """Follow a change that is on the disk."""
        match change:
            case GradientsStored(held):
                self.gradients[held.name] = held
            case OrderScored(scored):
                self.scored = scored
