"""What the rules ask the shell to do, after what they decided is on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fleetledger.coordinator.proxy.records import Change, Name
from fleetledger.schemas.message import Message
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proxy import ScoringOrder
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.values import DeviceId


@dataclass(frozen=True)
class SendReceipt:
    """Send a device a receipt for its gradients."""

    device: DeviceId
    receipt: Receipt


@dataclass(frozen=True)
class Tell:
    """Send the coordinator a score or a problem."""

    body: Message


@dataclass(frozen=True)
class FetchPayload:
    """Fetch what a device offered."""

    device: DeviceId
    name: Name
    offer: Offer


@dataclass(frozen=True)
class FetchWeights:
    """Fetch the weights that an order names."""

    order: ScoringOrder


@dataclass(frozen=True)
class Check:
    """Check gradients by what an order says of the method."""

    order: ScoringOrder
    name: Name


@dataclass(frozen=True)
class Score:
    """Score an order's weights; gradients of these names are new."""

    order: ScoringOrder
    fresh: tuple[Name, ...]
    anew: bool
    """Whether the method's state is of another network and does not count."""


Request: TypeAlias = "SendReceipt | Tell | FetchPayload | FetchWeights | Check | Score"


@dataclass(frozen=True)
class ProxyDecision:
    """What is to be written, and then done."""

    changes: tuple[Change, ...] = ()
    requests: tuple[Request, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.requests)


NOTHING = ProxyDecision()
