"""Rules of the connection: births, the coordinator's presence, welcomes, heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleetledger.device_agent.core import coordinator_presence, inputs
from fleetledger.device_agent.core.changes import Change, Durable, Put
from fleetledger.device_agent.core.decision import (
    NOTHING_TO_DO,
    AgentDecision,
    Waits,
    ask,
    change,
    tried,
)
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.enrolment import ask_anew
from fleetledger.device_agent.core.notices import problem, report_happened
from fleetledger.device_agent.core.records import Files, PresenceState, Sending, Try
from fleetledger.device_agent.core.requests import ReferTo, Say, Send, SendHealth, SendHeartbeat
from fleetledger.device_agent.core.state import AgentState
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.contributions import HeldPart, PartKey, held_digest
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import BootId
from fleetledger.schemas.wire import WireRange


def connected(state: AgentState, event: inputs.AgentConnected, now: float) -> AgentDecision:
    """Begin the connection with a birth, and with the welcome that answers it.

    Where the broker has forgotten a large fleet, all of it comes back: births are spread then.
    """
    wait = _share(state) * state.presence.spread_seconds if event.forgotten else 0.0
    presence = replace(
        state.presence,
        connected=True,
        welcomed_by=None,
        held_by=None,
        held={},
        birth=Try(0, now + wait),
        heartbeat_due=now
        + max(state.rules.heartbeat_seconds, _share(state) * state.presence.spread_seconds),
        doubted=False,
    )
    return change(presence, *ask_anew(state, now))


def disconnected(state: AgentState, _event: inputs.AgentDisconnected, _now: float) -> AgentDecision:
    """Send nothing until the connection is back; what was on its way is sent again then."""
    return change(replace(state.presence, connected=False))


def coordinator_born(state: AgentState, event: inputs.CoordinatorBorn, now: float) -> AgentDecision:
    """Greet a new run of the coordinator; an old one is not believed where that can be told.

    Where it cannot, because this device has not the coordinator's key, actions begin anew with a
    shorter ledger. A coordinator that runs beside another one is greeted by nobody.
    """
    presence = state.presence
    if coordinator_presence.is_old(state, event):
        return _doubted(state, event)
    if event.birth.beside:
        return change(replace(presence, coordinator=None, beside=(event.boot, *event.birth.beside)))
    presence = replace(presence, beside=(), wire=event.birth.wire)
    version = state.identity.wire.common(event.birth.wire)
    if version is None:
        return _not_led(state, presence)
    refers = ask(ReferTo(event.said, version))
    spread = float(event.birth.spread_seconds or 0)
    if event.boot == presence.coordinator:
        if spread == presence.spread_seconds and presence == state.presence:
            return refers
        return refers + change(replace(presence, spread_seconds=spread))
    presence = replace(presence, coordinator=event.boot, spread_seconds=spread)
    if presence.welcomed_by != event.boot:
        due = now + _share(state) * spread
        presence = replace(presence, welcomed_by=None, birth=Try(0, due))
    if presence.held_by != event.boot:
        presence = replace(presence, held={}, held_by=event.boot)
    # A file that could not be had from the last run is asked for at once.
    files: Files = replace(state.files, tries={})
    greeted = change(presence, files, *ask_anew(state, now)) + coordinator_presence.born(
        state, event
    )
    return refers + greeted + _ledger_is_shorter(state, event)


def _not_led(state: AgentState, presence: PresenceState) -> AgentDecision:
    """Give and ask for nothing where a coordinator speaks no version of the wire that is known."""
    noted = change(replace(presence, coordinator=None))
    if state.presence.wire == presence.wire:
        return noted
    return noted + ask(Say(wire_fault(state.identity.wire, presence.wire)))


def wire_fault(own: WireRange, other: WireRange | None) -> str:
    """Return why this agent is not led, with the way out; empty where it is, or may be."""
    if other is None or own.common(other) is not None:
        return ""
    old = own.highest < other.lowest
    return (
        f"wire: this agent speaks {own}, its coordinator {other}; it is too "
        f"{'old' if old else 'new'}: install the coordinator's release of fleetledger here, and "
        "restart the agent"
    )


def _doubted(state: AgentState, event: inputs.CoordinatorBorn) -> AgentDecision:
    """Go on as if an old birth had not come, and say what is proven here, once a connection.

    The device's birth says it, by which the operator of a restored ledger hears of it.
    """
    if state.presence.doubted:
        return NOTHING_TO_DO
    text = coordinator_presence.why_old(state, event)
    told = report_happened(state.told, [problem("ledger", text)], state.rules)
    return change(replace(state.presence, doubted=True), told) + ask(
        Say(text), Send("state", make_birth(state), retain=True)
    )


def _ledger_is_shorter(state: AgentState, event: inputs.CoordinatorBorn) -> AgentDecision:
    records = state.records
    if state.rules.trust is not None or records.ledger_boot in (None, event.boot):
        return NOTHING_TO_DO
    if event.birth.ledger_size > records.last_action:
        return NOTHING_TO_DO
    text = (
        f"ledger: it has {count_of(event.birth.ledger_size, 'entry', 'entries')}, but this "
        f"device has seen number "
        f"{records.last_action}; it was restored from a backup, and this device gives again what "
        "the backup lacks"
    )
    told = report_happened(state.told, [Problem(about="ledger", text=text)], state.rules)
    return change(Durable(lambda draft: forget_actions(draft, event.boot)), told)


def forget_actions(draft: Draft, ledger_boot: BootId | None) -> None:
    """Forget what a ledger wanted that is not there any more."""
    draft.assignment = draft.desired = draft.acted = draft.waited = None
    draft.comparing = draft.compared = draft.settling = None
    draft.ledger_boot = ledger_boot
    draft.masking = None  # its cohort is not there any more; what it would give is ready still
    draft.nothing.clear()
    draft.reported.clear()


def coordinator_died(
    state: AgentState, event: inputs.CoordinatorDied, _now: float
) -> AgentDecision:
    """Hold back while the coordinator is away; a death counts only for the run that it names."""
    presence = state.presence
    if event.boot in presence.beside:
        left = tuple(boot for boot in presence.beside if boot != event.boot)
        return change(replace(presence, beside=left if len(left) > 1 else ()))
    if event.boot != presence.coordinator:
        return NOTHING_TO_DO
    return change(replace(presence, coordinator=None))


def welcomed(state: AgentState, event: inputs.Welcomed, _now: float) -> AgentDecision:
    """Note what the coordinator holds; the last page completes the welcome."""
    welcome = event.welcome
    if welcome.boot != state.identity.boot:
        return NOTHING_TO_DO
    known = state.presence.held if state.presence.held_by in (None, event.coordinator) else {}
    presence = replace(
        state.presence, held=merge_held(known, welcome.held), held_by=event.coordinator
    )
    changes: list[Change] = []
    if welcome.next_part > (state.records.next_part if state.records.next_part is not None else -1):
        changes.append(Put(next_part=welcome.next_part))
    if not welcome.more and presence.welcomed_by != event.coordinator:
        presence = replace(presence, welcomed_by=event.coordinator)
        told = replace(state.told, waiting={}, status=False, evaluation=False)
        changes += [Sending(deferred=state.sending.deferred), told]
    changes += [presence, replace(state.work, settled=False)]
    return AgentDecision(tuple(changes))


def _share(state: AgentState) -> float:
    """Return this run's place in what is spread over a fleet, from 0 to below 1."""
    return int(state.identity.boot, 16) / (1 << 4 * len(state.identity.boot))


def merge_held(
    known: Mapping[PartKey, HeldPart], new: Iterable[HeldPart]
) -> Mapping[PartKey, HeldPart]:
    """Join what is held; of two revisions the higher counts, because pages may come late."""
    merged = dict(known)
    for part in new:
        if part.key not in merged or merged[part.key].revision <= part.revision:
            merged[part.key] = part
    return merged


def birth_due(state: AgentState, now: float) -> AgentDecision:
    """Send a birth at once after connecting, and again, with growing waits, until the welcome."""
    presence = state.presence
    if not presence.connected or presence.welcomed or now < presence.birth.due:
        return NOTHING_TO_DO
    if state.enrolling.holds_back:
        return NOTHING_TO_DO
    if presence.birth.count > 0 and presence.coordinator is None:
        return NOTHING_TO_DO
    waits = Waits(state.rules.birth_shortest, state.rules.birth_longest)
    birth = tried(presence.birth, now, waits, state.identity.boot, "birth")
    return change(replace(presence, birth=birth)) + ask(
        Send("state", make_birth(state), retain=True)
    )


def make_birth(state: AgentState) -> Birth:
    """Return the birth that tells the coordinator who is here and what runs."""
    active = state.models.active
    return Birth(
        installation=state.identity.installation,
        capabilities=state.identity.capabilities,
        active_version=active.version if active else None,
        active_manifest=active.manifest if active else None,
        outbox_length=len(state.records.outbox),
        seen_checkpoint=state.records.seen,
        formers=state.identity.formers,
        tags=dict(state.identity.tags),
        wire=state.identity.wire,
    )


def heartbeat_due(state: AgentState, now: float) -> AgentDecision:
    """Send counters for as long as there is a connection."""
    presence: PresenceState = state.presence
    if not presence.connected or state.enrolling.holds_back or now < presence.heartbeat_due:
        return NOTHING_TO_DO
    waiting = sum(state.scanning.waiting.values())
    # In a large fleet as seldom as births: each device once in the time that they are spread over.
    every = max(state.rules.heartbeat_seconds, presence.spread_seconds)
    later = replace(presence, heartbeat_due=now + every)
    records = state.records
    heartbeat = SendHeartbeat(
        outbox_length=len(records.outbox),
        waiting_images=waiting,
        welcomed=presence.welcomed,
        assignment_action=records.assignment.action if records.assignment else None,
        desired_action=records.desired.action if records.desired else None,
        held=held_digest(presence.held.values()) if presence.welcomed else None,
        seen_size=None if records.seen is None else records.seen.size,
    )
    return change(later) + ask(heartbeat)


def health_due(state: AgentState, now: float) -> AgentDecision:
    """Say how the machine is, after the welcome."""
    every, presence = state.rules.health_seconds, state.presence
    if every is None or not presence.welcomed or now < presence.health_due:
        return NOTHING_TO_DO
    return change(replace(presence, health_due=now + every)) + ask(SendHealth())
