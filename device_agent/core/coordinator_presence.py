"""Rules of what the coordinator's key has proven: how far its ledger and its clock have come.

A device with the coordinator's key remembers the most that was signed, over restarts:

- **An old birth is not believed.** A run of the coordinator begins with all entries that there
  ever were. One that names fewer than were proven here is a recording, or of a ledger that was
  restored from a backup; only the owner can tell, so actions begin anew by the owner's hand alone
  (`agent forget --checkpoint`).
- **Time has a floor.** What has expired is judged by this device's clock, or by the latest time
  that the coordinator has signed where that is later: a clock that was set back makes nothing
  valid again. After its operator has corrected a calendar, an earlier time counts.
- **Silence is told.** When nothing new that is signed came for so long while the agent ran, the
  owner is told: somebody may keep it back. What is said again is nothing new.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Put
from fleetledger.device_agent.core.decision import NOTHING_TO_DO, AgentDecision, ask, change
from fleetledger.device_agent.core.notices import problem, report_problems
from fleetledger.device_agent.core.records import Listening, News, SignedNews
from fleetledger.device_agent.core.requests import Say
from fleetledger.device_agent.core.state import AgentRecords, AgentState
from fleetledger.runtime.count_words import count_of

_NOTED_SECONDS = 600.0
_NOTED_SHARE = 0.05
_HOUR = 3600.0


def is_old(state: AgentState, event: inputs.CoordinatorBorn) -> bool:
    """Whether a birth is of a ledger before the one that was proven to this device."""
    records = state.records
    if state.rules.trust is None or event.boot in (records.heard.boot, records.ledger_boot):
        return False
    return event.birth.ledger_size < proven_size(records)


def proven_size(records: AgentRecords) -> int:
    """Return how many entries the ledger has at least, by what the coordinator has signed."""
    seen = 0 if records.seen is None else records.seen.size
    return max(records.heard.ledger_size, seen, records.last_action + 1)


def born(state: AgentState, event: inputs.CoordinatorBorn) -> AgentDecision:
    """Remember a run of the coordinator that is believed."""
    heard = state.records.heard
    if state.rules.trust is None or event.boot == heard.boot:
        return NOTHING_TO_DO
    size = max(heard.ledger_size, event.birth.ledger_size)
    return change(Put(heard=replace(heard, boot=event.boot, ledger_size=size)))


def why_old(state: AgentState, event: inputs.CoordinatorBorn) -> str:
    """Say why a birth is not believed, and what to do where it should be."""
    return (
        f"ledger: a birth of the coordinator names "
        f"{count_of(event.birth.ledger_size, 'entry', 'entries')}, and "
        f"{proven_size(state.records)} are proven to this device; it is not believed, because "
        "somebody may repeat an old one. If the ledger was restored from a backup: stop the agent, "
        "and run `fleetledger agent forget --checkpoint`"
    )


def beat(state: AgentState, event: inputs.CoordinatorBeat, _now: float) -> AgentDecision:
    """Take what a heartbeat of the coordinator proves; of an old one, nothing."""
    said, heard = event.heartbeat, state.records.heard
    if state.rules.trust is None or (said.corrections, said.time_ns) <= heard.moment:
        return NOTHING_TO_DO
    size = max(heard.ledger_size, said.ledger_size)
    return change(Put(heard=SignedNews(event.boot, size, said.corrections, said.time_ns)))


def started(state: AgentState, now: float) -> AgentDecision:
    """Begin to listen; what was silence before is silence still."""
    return change(Listening(now, _news(state.records)))


def silence_due(state: AgentState, now: float) -> AgentDecision:
    """Count how long nothing new came, and tell the owner when that is too long."""
    longest = state.rules.silent_seconds
    if state.rules.trust is None or longest is None:
        return NOTHING_TO_DO
    listening, records = state.listening, state.records
    if _news(records) != listening.news:
        return _heard_again(state, now)
    seconds = records.silent + now - listening.since
    if seconds >= longest and not listening.told:
        text = silence(seconds)
        told = report_problems(state.told, [problem("coordinator", text)], state.rules)
        later = replace(listening, since=now, told=True)
        return change(later, Put(silent=seconds), told) + ask(Say(text))
    if now - listening.since < _noted_every(longest):
        return NOTHING_TO_DO
    return change(replace(listening, since=now), Put(silent=seconds))


def _heard_again(state: AgentState, now: float) -> AgentDecision:
    decision = change(Listening(now, _news(state.records)))
    if state.records.silent > 0:
        decision += change(Put(silent=0.0))
    if state.listening.told:
        decision += ask(Say("the coordinator is heard again"))
    return decision


def next_time(state: AgentState) -> float | None:
    """Return when `silence_due` may next have something to do."""
    longest = state.rules.silent_seconds
    if state.rules.trust is None or longest is None:
        return None
    left = longest - state.records.silent
    if state.listening.told:
        left = longest
    return state.listening.since + min(left, _noted_every(longest))


def silence(seconds: float) -> str:
    """Say that nothing came for so long."""
    return (
        f"coordinator: nothing new that it has signed came for {seconds / _HOUR:.4g} h: it does "
        "not run, it cannot reach this device, or somebody keeps back what it says; ask its "
        "operator"
    )


def describe(state: AgentState) -> str:
    """Return what is to be said of silence now; nothing while there is none."""
    return silence(state.records.silent) if state.listening.told else ""


def _news(records: AgentRecords) -> News:
    seen = 0 if records.seen is None else records.seen.size
    return News(records.heard, seen, records.last_action)


def _noted_every(longest: float) -> float:
    return min(_NOTED_SECONDS, _NOTED_SHARE * longest)
