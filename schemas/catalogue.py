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

Sender = Literal["device", "coordinator", "proxy", "both"]


@dataclass(frozen=True)
class Entry:
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

CATALOGUE: tuple[Entry, ...] = (
    Entry(Birth, "device", ("up/<device>/state",), retained=True),
    Entry(Death, "device", ("up/<device>/state",), retained=True),
    Entry(Heartbeat, "device", ("up/<device>/hb",)),
    Entry(Enrolment, "device", _UP),
    Entry(KeyRotation, "device", _UP),
    Entry(Contribution, "device", _UP, attachment="the payload, up to 64 KiB; else offered"),
    Entry(Withdrawal, "device", _UP),
    Entry(Nothing, "device", _UP),
    Entry(Transition, "device", _UP),
    Entry(Evaluation, "device", _UP),
    Entry(WaitingClasses, "device", _UP),
    Entry(Problem, "device", _UP),
    Entry(ModelStatus, "device", _UP),
    Entry(CoordinatorBirth, "coordinator", ("all/state",), retained=True),
    Entry(CoordinatorHeartbeat, "coordinator", ("all/state",)),
    Entry(CoordinatorDeath, "coordinator", ("all/state",), retained=True),
    Entry(Welcome, "coordinator", ("down/<device>/ctl",)),
    Entry(Enrolled, "coordinator", ("down/<device>/ctl",)),
    Entry(Receipt, "coordinator", ("down/<device>/rcpt",)),
    Entry(Assignment, "coordinator", ("down/<device>/assignment",), retained=True),
    Entry(DesiredModel, "coordinator", ("down/<device>/desired",), retained=True),
    Entry(
        PrototypeGradients,
        "device",
        ("proxy/up/<device>/msg",),
        attachment="the payload, up to 64 KiB; else offered",
    ),
    Entry(ScoringOrder, "coordinator", ("down/proxy/assignment",), retained=True),
    Entry(Scored, "proxy", ("up/proxy/msg",)),
    Entry(BlockRequest, "both", _REQUESTS),
    Entry(BlockData, "both", _BLOCKS, attachment="the block"),
    Entry(BlockRefusal, "both", _BLOCKS),
)
