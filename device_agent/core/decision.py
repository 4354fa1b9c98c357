"""A decision: changes to commit in one transaction, then requests to carry out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fleetledger.device_agent.core.changes import Change
from fleetledger.device_agent.core.records import Try
from fleetledger.device_agent.core.requests import Request
from fleetledger.device_agent.core.state import PIECES
from fleetledger.schemas.values import BootId


@dataclass(frozen=True)
class AgentDecision:
    """What the rules make of one input."""

    changes: tuple[Change, ...] = ()
    requests: tuple[Request, ...] = ()

    def __post_init__(self) -> None:
        pieces = [type(item) for item in self.changes if isinstance(item, PIECES)]
        assert len(pieces) == len(set(pieces)), "a piece changed twice: the first would be lost"

    def __add__(self, other: AgentDecision) -> AgentDecision:
        """Return this decision, then the other."""
        return AgentDecision(self.changes + other.changes, self.requests + other.requests)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.changes or self.requests)


NOTHING_TO_DO = AgentDecision()


def change(*changes: Change) -> AgentDecision:
    """Return the decision to change something and ask for nothing."""
    return AgentDecision(changes=changes)


def ask(*requests: Request) -> AgentDecision:
    """Return the decision to ask for something and change nothing."""
    return AgentDecision(requests=requests)


@dataclass(frozen=True)
class Waits:
    """Waiting times between tries: doubling from `shortest` to `longest` seconds."""

    shortest: float
    longest: float


def tried(before: Try, now: float, waits: Waits, boot: BootId, subject: object) -> Try:
    """Count one more try of `subject` and say when the next is due.

    The wait is multiplied by 0.5 to 1, so that a fleet does not come back in one moment. The factor
    is a hash of boot, subject and count: spread over devices, and the same when replayed.
    """
    seed = f"{boot}/{subject}/{before.count}".encode()
    factor = 0.5 + hashlib.sha256(seed).digest()[0] / 510
    wait = min(waits.longest, waits.shortest * 2.0 ** min(before.count, 30))
    return Try(before.count + 1, now + wait * factor)
