"""What can happen to a proxy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from fleetledger.coordinator.proxy.records import Name, OrderScored
from fleetledger.schemas.proxy import PrototypeGradients, ScoringOrder
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.values import DeviceId, Digest


@dataclass(frozen=True)
class ProxyConnected:
    """The broker let us in."""


@dataclass(frozen=True)
class Gradients:
    """A device sent gradients, attached or offered."""

    device: DeviceId
    body: PrototypeGradients
    attachment: bytes = field(repr=False)


@dataclass(frozen=True)
class PayloadFetched:
    """What a device offered is here, with the right digest."""

    name: Name
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class PayloadLost:
    """What a device offered did not come."""

    name: Name
    reason: str


@dataclass(frozen=True)
class Ordered:
    """The coordinator asks for a score."""

    order: ScoringOrder


@dataclass(frozen=True)
class WeightsFetched:
    """The weights that an order names are here."""

    weights: Digest


@dataclass(frozen=True)
class WeightsLost:
    """They did not come."""

    weights: Digest


@dataclass(frozen=True)
class Checked:
    """Gradients were checked; `fault` says what is wrong, and is empty where nothing is."""

    name: Name
    fault: str


@dataclass(frozen=True)
class ScoringFinished:
    """An order was carried out."""

    change: OrderScored


@dataclass(frozen=True)
class OrderFailed:
    """An order cannot be carried out, for a reason that will not go away by itself."""

    action: int
    reason: str


@dataclass(frozen=True)
class Acknowledged:
    """The coordinator answered a score."""

    receipt: Receipt


Input: TypeAlias = (
    "ProxyConnected | Gradients | PayloadFetched | PayloadLost | Ordered | WeightsFetched"
    " | WeightsLost | Checked | ScoringFinished | OrderFailed | Acknowledged"
)
