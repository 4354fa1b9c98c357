"""An agent that counts, without a shell: its own rules, its records in memory, no message.

What the rules ask for is done at once: a look at the samples, a part, a message that somebody
takes. The connection is always up, and what is accepted is known to be held, as a device knows it
from its receipts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable, drafted
from fleetledger.device_agent.core.records import Files, OwnReports, PresenceState
from fleetledger.device_agent.core.requests import (
    ComputePart,
    Scan,
    Send,
    SendOutboxMessage,
    WakeAt,
)
from fleetledger.device_agent.core.session import COUNTING, in_order, turn
from fleetledger.device_agent.core.state import AgentRecords, AgentRules, AgentState, DeviceIdentity
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import HeldPart
from fleetledger.schemas.message import Message
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.values import BootId
from fleetledger.simulator.errors import EngineError

Compute = Callable[[ComputePart], inputs.PartComputed]
_RULES = in_order(COUNTING)


@dataclass
class AgentMemory:
    """What of an agent outlasts its turns."""

    records: AgentRecords = field(default_factory=AgentRecords)
    told: OwnReports = field(default_factory=OwnReports)


class CountingAgent:
    """The agent of one device, while it has something to do."""

    def __init__(
        self, rules: AgentRules, identity: DeviceIdentity, kept: AgentMemory, coordinator: BootId
    ) -> None:
        self._kept = kept
        self._coordinator = coordinator
        self._state = AgentState(
            rules,
            identity,
            records=kept.records,
            presence=PresenceState(
                connected=True,
                coordinator=coordinator,
                held_by=coordinator,
                welcomed_by=coordinator,
                held={held.key: held for held in _held(kept.records)},
                heartbeat_due=math.inf,
            ),
            told=kept.told,
        )

    @property
    def waits(self) -> bool:
        """Whether messages have no receipt yet."""
        return bool(self._state.records.outbox)

    def count(
        self, assignment: Assignment, found: inputs.Scanned, compute: Compute, now: float
    ) -> Iterator[Message]:
        """Take an assignment, look, and make the parts that it asks for; yield what is said."""
        self._state.replace(Files(here=frozenset(offer.digest for offer in assignment.offers)))
        assigned = inputs.Assigned(self._coordinator, assignment)
        yield from self._carry_out(assigned, found, compute, now)

    def answered(self, receipt: Receipt, now: float) -> Iterator[Message]:
        """Take a receipt; yield what is said after it."""
        yield from self._carry_out(inputs.ReceiptArrived(receipt), None, None, now)

    def _carry_out(
        self,
        event: inputs.Input,
        found: inputs.Scanned | None,
        compute: Compute | None,
        now: float,
    ) -> Iterator[Message]:
        waiting = deque([event])
        while waiting:
            for request in turn(self._state, waiting.popleft(), now, commit, _RULES):
                match request:
                    case Scan() if found is not None:
                        waiting.append(found)
                    case ComputePart() if compute is not None:
                        waiting.append(compute(request))
                    case SendOutboxMessage(_, body) | Send(_, body):
                        yield body
                    case WakeAt():
                        pass  # time passes elsewhere
                    case _:
                        name = type(request).__name__
                        raise EngineError(f"{name}: agents that are told what to do cannot do that")
        self._kept.told = self._state.told


def commit(records: AgentRecords, changes: tuple[Durable, ...]) -> None:
    """Bring changes into records that lie in memory alone."""
    drafted(records, changes).merge(records)


def _held(records: AgentRecords) -> Iterator[HeldPart]:
    """Yield what the receipts said that the coordinator holds."""
    for key, part in records.parts.items():
        if part.state == "accepted" and part.payload is not None:
            yield HeldPart(key=key, revision=part.revision, payload=part.payload)
