"""Rules of patience: a desired model that does not come is given up at its deadline.

The deadline counts from when the desired model arrived, in seconds of a clock that does not go
back, so the calendar may leap while the agent runs. How long was waited is written down every
minute at the latest. Over a restart the calendar says how long the device was away, and is believed
only in part: a clock that went back adds nothing, and an absence, or a leap, at most a tenth of the
deadline. A device that was switched off for a year had no chance to fetch anything.

An installation that has begun is let come to its own end, and what only waits for the hours in
which the device may switch is waited for.
"""

from __future__ import annotations

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Put
from fleetledger.device_agent.core.decision import NOTHING_TO_DO, AgentDecision, change
from fleetledger.device_agent.core.models import ended, needed_digests, open_action, waits_for_hours
from fleetledger.device_agent.core.records import ModelWait, Waited
from fleetledger.device_agent.core.state import AgentState
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.models import DesiredModel

_NOTED_SECONDS = 60.0
_NOTED_SHARE = 0.05
_ABSENCE_SHARE = 0.1
_NANOSECONDS = 1_000_000_000


def started(state: AgentState, event: inputs.Started, now: float) -> AgentDecision:
    """Begin to count, and add what an open action was waited for while nothing ran."""
    waiting = ModelWait(now, event.time_ns)
    action = open_action(state)
    if action is None:
        return change(waiting)
    known = state.records.waited
    if known is None or known.action != action.action:
        known = Waited(action.action, 0.0, event.time_ns)
    away = (event.time_ns - known.time_ns) / _NANOSECONDS
    longest = _ABSENCE_SHARE * state.rules.deadline_seconds
    seconds = known.seconds + min(max(away, 0.0), longest)
    return change(waiting, Put(waited=Waited(action.action, seconds, event.time_ns)))


def deadline_due(state: AgentState, now: float) -> AgentDecision:
    """Give up what did not come in time; else note, now and then, how long it was waited for."""
    action = open_action(state)
    if action is None or state.models.installing is not None:
        return NOTHING_TO_DO
    known = state.records.waited
    if known is None or known.action != action.action:
        return _noted(state, action.action, 0.0, now)
    seconds = known.seconds + now - state.waiting.since
    if seconds >= state.rules.deadline_seconds and not waits_for_hours(state):
        return ended(state, action, "failed", _reason(state, action))
    if now - state.waiting.since < _noted_every(state):
        return NOTHING_TO_DO
    return _noted(state, action.action, seconds, now)


def next_time(state: AgentState) -> float | None:
    """Return when `deadline_due` may next have something to do."""
    known = state.records.waited
    if known is None or open_action(state) is None or state.models.installing is not None:
        return None
    left = state.rules.deadline_seconds - known.seconds
    return state.waiting.since + min(left, _noted_every(state))


def _noted(state: AgentState, action: int, seconds: float, now: float) -> AgentDecision:
    time_ns = _time_ns(state, now)
    return change(ModelWait(now, time_ns), Put(waited=Waited(action, seconds, time_ns)))


def _reason(state: AgentState, action: DesiredModel) -> str:
    wanted = needed_digests(state, action)
    hours = state.rules.deadline_seconds / 3600
    return (
        f"deadline: {len(wanted - state.files.here)} of {count_of(len(wanted), 'file')} did not "
        f"come within "
        f"{hours:.4g} h; push the model again, or raise model.deadline_hours in agent.toml"
    )


def _noted_every(state: AgentState) -> float:
    return min(_NOTED_SECONDS, _NOTED_SHARE * state.rules.deadline_seconds)


def _time_ns(state: AgentState, now: float) -> int:
    """Return the calendar's time as of the last reading, carried on by the clock."""
    return state.waiting.time_ns + round((now - state.waiting.since) * _NANOSECONDS)
