"""What can happen to a proxy, and what its rules decide: changes first, then requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from fleetledger.coordinator.proxy.records import Change, Name, OrderScored
from fleetledger.schemas.message import Message
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proxy import PrototypeGradients, ScoringOrder
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.interface import Connected


@dataclass(frozen=True)
class Gradients:
    """A device sent gradients, attached or offered."""

    device: DeviceId
    body: PrototypeGradients
    attachment: bytes = field(repr=False)


@dataclass(frozen=True)
class Fetched:
    """A device's gradients, or the weights of an order, are here, or did not come."""

    wanted: Name | ScoringOrder
    data: bytes | None = field(repr=False)
    """Bytes with the right digest; None if they did not come."""
    fault: str = ""


@dataclass(frozen=True)
class Checked:
    """Gradients were checked; `fault` says what is wrong, and is empty where nothing is."""

    name: Name
    fault: str


@dataclass(frozen=True)
class OrderFailed:
    """An order cannot be carried out, for a reason that will not go away by itself."""

    action: int
    reason: str


Input: TypeAlias = (
    Connected | Gradients | ScoringOrder | Receipt | Fetched | Checked | OrderScored | OrderFailed
)


@dataclass(frozen=True)
class Tell:
    """Send a message to a device, or to the coordinator if none is named."""

    body: Message
    device: DeviceId | None = None


@dataclass(frozen=True)
class ProxyFetch:
    """Fetch what a device offered, or the weights of an order."""

    wanted: Name | ScoringOrder
    offer: Offer
    peer: DeviceId


@dataclass(frozen=True)
class Check:
    """Check gradients by what an order says of the method."""

    order: ScoringOrder
    name: Name


@dataclass(frozen=True)
class Score:
    """Score an order's weights; gradients of these names are new."""

    order: ScoringOrder
    weights: bytes = field(repr=False)
    fresh: tuple[Name, ...]
    anew: bool
    """Whether the method's state is of another network and does not count."""


Request: TypeAlias = Tell | ProxyFetch | Check | Score


@dataclass(frozen=True)
class ProxyDecision:
    """What is to be written, and then done."""

    changes: tuple[Change, ...] = ()
    requests: tuple[Request, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.requests)


NOTHING = ProxyDecision()
