"""Rules of settling: a model that was switched to has run for so long, and is told to have.

The time counts while the agent runs with the model, over restarts, as it was noted last. The
device also says how often the machine slowed down since the switch, or since it was switched on.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable, Put
from fleetledger.device_agent.core.decision import NOTHING_TO_DO, AgentDecision, ask, change
from fleetledger.device_agent.core.log_words import Line
from fleetledger.device_agent.core.records import Settling
from fleetledger.device_agent.core.requests import ReadThrottling
from fleetledger.device_agent.core.state import AgentState
from fleetledger.schemas.models import DesiredModel, ModelStatus

_NOTED_SECONDS = 60.0
_NOTED_SHARE = 0.05
_LEAST_NOTED_SECONDS = 1.0


def begun(
    state: AgentState, action: DesiredModel | None, event: inputs.ModelInstalled, now: float
) -> tuple[Durable, ...]:
    """Return that a model begins to settle; the same one, desired again, goes on."""
    known = state.records.settling
    if action is None or action.settle_seconds is None:
        return () if known is None else (Put(settling=None),)
    begins = Settling(
        event.active, event.previous_version, action.settle_seconds, throttled=event.throttled
    )
    if known is not None and known.model == event.active:
        lived = known.lived if known.told else _lived(state, known, now)
        begins = replace(begins, lived=lived, throttled=known.throttled)
    return (Put(settling=begins),)


def settling_due(state: AgentState, now: float) -> AgentDecision:
    """Note how long the model has run; ask how it has done when that is long enough."""
    settling, models = state.records.settling, state.models
    if settling is None or settling.told or models.installing is not None:
        return NOTHING_TO_DO
    if models.active != settling.model or models.settling_ends:
        return NOTHING_TO_DO
    if now >= _ends(state, settling):
        return change(replace(models, settling_ends=True)) + ask(ReadThrottling(settling.model))
    if now < _next(state, settling):
        return NOTHING_TO_DO
    noted = Put(settling=replace(settling, lived=_lived(state, settling, now)))
    return change(replace(models, settling_since=now), noted)


def next_time(state: AgentState) -> float | None:
    """Return when `settling_due` may next have something to do."""
    settling = state.records.settling
    if settling is None or settling.told or state.models.active != settling.model:
        return None
    return _next(state, settling)


def settled(state: AgentState, event: inputs.ThrottlingRead, _now: float) -> AgentDecision:
    """Say that the model has settled."""
    models = replace(state.models, settling_ends=False)
    settling = state.records.settling
    if settling is None or settling.told or settling.model != event.model:
        return change(models)
    status = ModelStatus(
        version=event.model.version,
        manifest=event.model.manifest,
        state="settled",
        previous_version=settling.previous,
        throttled=_since(settling.throttled, event.throttled),
    )
    fields = {"version": status.version, "throttled": status.throttled}
    line = Line("model.settled", f"model {status.version} has settled", fields)
    ended = replace(settling, lived=settling.seconds, told=True)
    put = Put(line, settling=ended, status=status)
    return change(models, put, replace(state.told, status=False))


def _since(before: int | None, after: int | None) -> int | None:
    if before is None or after is None:
        return None
    return after - before if after >= before else after


def _ends(state: AgentState, settling: Settling) -> float:
    return state.models.settling_since + (settling.seconds - settling.lived)


def _next(state: AgentState, settling: Settling) -> float:
    """Return when there is something to note or say: the very sum that is waited for."""
    noted = state.models.settling_since + _noted_every(settling)
    return min(_ends(state, settling), noted)


def _lived(state: AgentState, settling: Settling, now: float) -> float:
    return settling.lived + now - state.models.settling_since


def _noted_every(settling: Settling) -> float:
    return max(_LEAST_NOTED_SECONDS, min(_NOTED_SECONDS, _NOTED_SHARE * settling.seconds))
