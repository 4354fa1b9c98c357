"""Rules of what the coordinator is told beside the outbox: problems, waiting classes, reports.

These messages have no receipt. Reports and waiting classes are told again after every welcome, so
one that was lost arrives in the end; a problem is told once per run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.decision import NOTHING_TO_DO, AgentDecision, ask, change
from fleetledger.device_agent.core.policy import images_asked, unable_to
from fleetledger.device_agent.core.records import OwnReports
from fleetledger.device_agent.core.requests import Request, Say, Send
from fleetledger.device_agent.core.state import AgentRules, AgentState
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.reports import MAX_WAITING_CLASSES, Problem, WaitingClasses

_REMEMBERED_PROBLEMS = 500
_RECENT_PROBLEMS = 10


def report_problems(told: OwnReports, problems: Iterable[Problem], rules: AgentRules) -> OwnReports:
    """Queue problems that were not told yet; beyond the queue's length they are only counted."""
    known = told.problems if len(told.problems) < _REMEMBERED_PROBLEMS else frozenset()
    new = {problem.text: problem for problem in problems if problem.text not in known}
    room = max(0, rules.problems_queued - len(told.queue))
    queued = tuple(new.values())[:room]
    return replace(
        told,
        problems=known.union(new),
        queue=told.queue + queued,
        untold=told.untold + len(new) - len(queued),
        recent=(*told.recent, *new)[-_RECENT_PROBLEMS:],
    )


def report_happened(told: OwnReports, problems: Iterable[Problem], rules: AgentRules) -> OwnReports:
    """Queue what has happened at one moment, and does not stand."""
    items = tuple(problems)
    new = tuple(item for item in items if item.text not in told.problems)
    happened = (*told.happened, *new)[-_RECENT_PROBLEMS:]
    return replace(report_problems(told, items, rules), happened=happened)


def recovered(told: OwnReports, texts: Iterable[str]) -> OwnReports:
    """Let problems that are over be told again where they come back."""
    over = told.problems & frozenset(texts)
    if not over:
        return told
    recent = tuple(text for text in told.recent if text not in over)
    return replace(told, problems=told.problems - over, recent=recent)


def problem(about: str, text: str) -> Problem:
    """Return a problem whose text is cut to what a message carries."""
    return Problem(about=about, text=text if len(text) <= 500 else text[:499] + "…")


def noticed(state: AgentState, event: inputs.Noticed, _now: float) -> AgentDecision:
    """Tell what the work met."""
    return change(report_happened(state.told, [event.problem], state.rules))


def images_due(state: AgentState, _now: float) -> AgentDecision:
    """Say once, with the first assignment, what becomes of this device's images."""
    assignment = state.records.assignment
    words = "" if assignment is None else images_asked(state.rules, assignment)
    if words == state.told.images_asked:
        return NOTHING_TO_DO
    said = change(replace(state.told, images_asked=words))
    return said + ask(Say(words)) if words else said


def requirements_due(state: AgentState, _now: float) -> AgentDecision:
    """Say once to the coordinator what is to be installed here for what it asks."""
    assignment = state.records.assignment
    lacks = "" if assignment is None else unable_to(assignment)
    if not lacks or lacks in state.told.problems:
        return NOTHING_TO_DO
    told = report_problems(state.told, [problem("distribution", lacks)], state.rules)
    return change(told)


def problems_due(state: AgentState, _now: float) -> AgentDecision:
    """Tell problems as soon as somebody can hear them."""
    told = state.told
    if not state.presence.welcomed or not told.queue:
        return NOTHING_TO_DO
    queue = told.queue
    if told.untold:
        more = count_of(told.untold, "more problem")
        text = f"{more} like these; `fleetledger agent status` has the count"
        queue = (*queue, problem("device", text))
    return change(replace(told, queue=(), untold=0)) + ask(*(Send("msg", item) for item in queue))


def reports_due(state: AgentState, _now: float) -> AgentDecision:
    """Tell waiting classes, the last model's fate and its accuracy, once per change and welcome."""
    if not state.presence.welcomed:
        return NOTHING_TO_DO
    told, records = state.told, state.records
    requests: list[Request] = []
    if state.records.assignment is not None and state.scanning.waiting != told.waiting:
        classes = dict(sorted(state.scanning.waiting.items())[:MAX_WAITING_CLASSES])
        requests.append(Send("msg", WaitingClasses(classes=classes)))
        told = replace(told, waiting=state.scanning.waiting)
    if records.status is not None and not told.status:
        requests.append(Send("msg", records.status))
        told = replace(told, status=True)
    if records.evaluation is not None and not told.evaluation:
        if state.models.active and records.evaluation.manifest == state.models.active.manifest:
            requests.append(Send("msg", records.evaluation))
        told = replace(told, evaluation=True)
    return AgentDecision((told,), tuple(requests)) if told is not state.told else NOTHING_TO_DO
