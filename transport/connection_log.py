"""What a program's log says of its connection to the broker; the same in every program."""

from __future__ import annotations

import logging

from fleetledger.runtime.log_lines import LogEvent
from fleetledger.runtime.log_setup import EventLog
from fleetledger.transport.interface import Connected, ConnectionProblem, Disconnected

BROKER_EVENTS = {
    "broker.connected": "the connection is there",
    "broker.away": "it is lost, and why; it comes back by itself",
    "broker.problem": "something went wrong on it",
}


def say_connection(
    events: EventLog,
    event: Connected | Disconnected | ConnectionProblem,
    device: str | None = None,
) -> None:
    """Say how the connection to the broker is; `device` is whose it is."""
    match event:
        case Connected():
            said = LogEvent("broker.connected", device)
            events.emit(logging.INFO, said, "connected to the broker")
        case Disconnected(reason):
            said = LogEvent("broker.away", device, more={"reason": reason})
            events.emit(logging.WARNING, said, f"the broker is away: {reason}")
        case ConnectionProblem(error):
            events.emit(logging.WARNING, LogEvent("broker.problem", device), str(error))
