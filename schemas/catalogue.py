"""All messages of the protocol: who sends each, on which topic, and whether the broker keeps it.

A new kind of message is added here by hand, beside its model. Documentation and tests go by this
list; a test fails when a model is missing from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import CohortJoin, CohortReveal
from fleetledger.schemas.contributions import Contribution, Nothing, Withdrawal
from fleetledger.schemas.enrolment import Enrolled, Enrolment, KeyRotation
from fleetledger.schemas.health import DeviceHealth
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.offers import BlockData, BlockRefusal, BlockRequest
from fleetledger.schemas.presence import (
    Birth,
    CoordinatorBirth,
    CoordinatorDeath,
    CoordinatorHeartbeat,
    Death,
    Heartbeat,
    Welcome,
)
from fleetledger.schemas.proxy import PrototypeGradients, Scored, ScoringOrder
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.reports import Evaluation, Problem, Transition, WaitingClasses
from fleetledger.schemas.rollouts import ModelComparison

Sender = Literal["device", "coordinator", "proxy", "both"]


@dataclass(frozen=True)
class CatalogueEntry:
    """One kind of message. `branches` end in a leaf of `schemas.topics`."""

    model: type[Message]
    sender: Sender
    branches: tuple[str, ...]
    retained: bool = False
    attachment: str = ""
    """What raw bytes follow the header line, if any."""

    @property
    def kind(self) -> str:
        """The name in the envelope's header."""
        return self.model.kind


_UP = ("up/<device>/msg",)
_REQUESTS = ("up/<device>/req", "down/<device>/req")
_BLOCKS = ("up/<device>/blk", "down/<device>/blk")

CATALOGUE: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(Birth, "device", ("up/<device>/state",), retained=True),
    CatalogueEntry(Death, "device", ("up/<device>/state",), retained=True),
    CatalogueEntry(Heartbeat, "device", ("up/<device>/hb",)),
    CatalogueEntry(DeviceHealth, "device", ("up/<device>/hb",)),
    CatalogueEntry(Enrolment, "device", _UP),
    CatalogueEntry(KeyRotation, "device", _UP),
    CatalogueEntry(
        Contribution, "device", _UP, attachment="the payload, up to 64 KiB; else offered"
    ),
    CatalogueEntry(CohortJoin, "device", _UP),
    CatalogueEntry(CohortReveal, "device", _UP),
    CatalogueEntry(Withdrawal, "device", _UP),
    CatalogueEntry(Nothing, "device", _UP),
    CatalogueEntry(Transition, "device", _UP),
    CatalogueEntry(ModelComparison, "device", _UP),
    CatalogueEntry(Evaluation, "device", _UP),
    CatalogueEntry(WaitingClasses, "device", _UP),
    CatalogueEntry(Problem, "device", _UP),
    CatalogueEntry(ModelStatus, "device", _UP),
    CatalogueEntry(CoordinatorBirth, "coordinator", ("all/state",), retained=True),
    CatalogueEntry(CoordinatorHeartbeat, "coordinator", ("all/state",)),
    CatalogueEntry(CoordinatorDeath, "coordinator", ("all/state",), retained=True),
    CatalogueEntry(Welcome, "coordinator", ("down/<device>/ctl",)),
    CatalogueEntry(Enrolled, "coordinator", ("down/<device>/ctl",)),
    CatalogueEntry(Receipt, "coordinator", ("down/<device>/rcpt",)),
    CatalogueEntry(Assignment, "coordinator", ("down/<device>/assignment",), retained=True),
    CatalogueEntry(DesiredModel, "coordinator", ("down/<device>/desired",), retained=True),
    CatalogueEntry(
        PrototypeGradients,
        "device",
        ("proxy/up/<device>/msg",),
        attachment="the payload, up to 64 KiB; else offered",
    ),
    CatalogueEntry(ScoringOrder, "coordinator", ("down/proxy/assignment",), retained=True),
    CatalogueEntry(Scored, "proxy", ("up/proxy/msg",)),
    CatalogueEntry(BlockRequest, "both", _REQUESTS),
    CatalogueEntry(BlockData, "both", (*_BLOCKS, "all/blk/<digest>"), attachment="the block"),
    CatalogueEntry(BlockRefusal, "both", _BLOCKS),
)
