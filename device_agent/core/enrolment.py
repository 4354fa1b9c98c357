"""Rules of this device's key: the coordinator is asked to confirm it until it has.

A device that has no other key says nothing else before, so that nothing of it goes unsigned.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Change
from fleetledger.device_agent.core.decision import (
    NOTHING_TO_DO,
    AgentDecision,
    Waits,
    ask,
    change,
    tried,
)
from fleetledger.device_agent.core.records import Try
from fleetledger.device_agent.core.requests import AdoptKey, Say, Send
from fleetledger.device_agent.core.state import AgentState


def enrolment_due(state: AgentState, now: float) -> AgentDecision:
    """Ask at once after connecting, and again, with growing waits, until the answer.

    Whoever says nothing else asks again also while no coordinator was heard: its birth may have
    been lost as well, and no heartbeat would bring it.
    """
    enrolling = state.enrolling
    if enrolling.asks is None or not state.presence.connected or now < enrolling.tried.due:
        return NOTHING_TO_DO
    unheard = state.presence.coordinator is None
    if enrolling.tried.count > 0 and unheard and not enrolling.holds_back:
        return NOTHING_TO_DO
    waits = Waits(state.rules.birth_shortest, state.rules.birth_longest)
    again = tried(enrolling.tried, now, waits, state.identity.boot, "enrolment")
    return change(replace(enrolling, tried=again)) + ask(Send("msg", enrolling.asks))


def ask_anew(state: AgentState, now: float) -> tuple[Change, ...]:
    """Return what has the coordinator asked at once, where there is something to ask."""
    if state.enrolling.asks is None:
        return ()
    return (replace(state.enrolling, tried=Try(0, now)),)


def enrolled(state: AgentState, event: inputs.KeyEnrolled, now: float) -> AgentDecision:
    """Let the key count that the coordinator confirms; of another one nothing follows."""
    asks = state.enrolling.asks
    if asks is None or asks.key != event.key:
        return NOTHING_TO_DO
    changes = (
        replace(state.enrolling, asks=None),
        replace(state.presence, birth=Try(0, now)),
    )
    said = Say(f"the key {event.key.key_hash.hex()} counts from here on")
    return AgentDecision(changes, (AdoptKey(), said))
