"""All messages of the protocol: who sends each, on which topic, and whether the broker keeps it.

A new kind of message is added here by hand, beside its model. Documentation and tests go by this
list; a test fails when a model is missing from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from schemas.assignments import Assignment
from schemas.contributions import Contribution, Nothing, Withdrawal
from schemas.enrolment import Enrolled, Enrolment, KeyRotation
from schemas.health import DeviceHealth
from schemas.message import Message
from schemas.models import DesiredModel, ModelStatus
from schemas.offers import BlockData, BlockRefusal, BlockRequest
from schemas.presence import (
    Birth,
    CoordinatorBirth,
    CoordinatorDeath,
    CoordinatorHeartbeat,
    Death,
    Heartbeat,
    Welcome,
)
from schemas.proxy import PrototypeGradients, Scored, ScoringOrder
from schemas.receipts import Receipt
from schemas.reports import Evaluation, Problem, Transition, WaitingClasses
from schemas.rollouts import ModelComparison

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
    CatalogueEntry(BlockData, "both", _BLOCKS, attachment="the block"),
    CatalogueEntry(BlockRefusal, "both", _BLOCKS),
)
