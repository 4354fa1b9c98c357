"""Problems that stand: what is wrong now, as far as the rules know, without a date.

Each is there for as long as it is so and no longer, so nobody has to take one back. What has
merely happened, such as a refusal, is in `OwnReports.happened` instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleetledger.device_agent.core import coordinator_presence
from fleetledger.device_agent.core.policy import unable_to
from fleetledger.device_agent.core.presence import wire_fault
from fleetledger.device_agent.core.state import AgentRecords, AgentState
from fleetledger.runtime.problems import PATIENCE_SECONDS, OpenProblem
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.values import Digest

UNANSWERED = "the model gives NaN or infinity for it"
"""Why a sample is left out that can be read."""
_TRIES = 2
"""So often a message is sent before it counts as one without an answer."""
_SAMPLES = 5
"""Samples that are named; of the others the number is told."""


def standing_problems(state: AgentState, *, moving: bool = False) -> Iterator[OpenProblem]:
    """Yield what is wrong; `moving` says that blocks cross now, so a payload may be on its way."""
    yield from _troubles(state)
    yield from _unanswered(state, moving=moving)
    yield from (OpenProblem(told.about, told.text) for told in state.scanning.problems)
    yield from _left_out_samples(state)
    for about, text in (
        ("detection", state.detecting.trouble),
        ("evaluation", state.models.unmeasured),
    ):
        if text:
            yield OpenProblem(about, text)


def left_out(state: AgentState) -> dict[Digest, str]:
    """Return why samples that lie in the folder are left out of everything, by their digest."""
    found = {
        digest: why
        for digest, why in state.records.unusable.items()
        if digest in state.scanning.images
    }
    unanswered = unanswered_images(state.records)
    return found | {key: why for key, why in unanswered.items() if key in state.scanning.images}


def unanswered_images(records: AgentRecords) -> Mapping[Digest, str]:
    """Return the images that the assigned frozen model does not answer, with the reason."""
    frozen = None if records.assignment is None else frozen_model(records.assignment)
    return {} if frozen is None else records.unanswered.get(frozen, {})


def frozen_model(assignment: Assignment) -> Digest | None:
    """Return the frozen model that an assignment has features made with; None for pictures."""
    offer = assignment.frozen or assignment.backbone
    return None if offer is None else offer.digest


def sample_text(state: AgentState, digest: Digest, reason: str) -> str:
    """Return what is told of a sample that is left out."""
    sighting = state.scanning.images.get(digest)
    path = digest.short if sighting is None else sighting.path
    return left_out_text(path, reason)


def left_out_text(path: object, reason: str) -> str:
    """Return what is told of a sample that is left out, by its path."""
    changes = "it or the model changes" if reason == UNANSWERED else "it changes"
    return f"{path}: {reason}; left out until {changes}"


def _troubles(state: AgentState) -> Iterator[OpenProblem]:
    """Yield what is tried again and again in vain, or cannot be tried."""
    assignment = state.records.assignment
    for about, text in (
        ("files", state.files.trouble),
        ("data", state.scanning.trouble),
        ("work", state.work.trouble),
        ("training", state.training.trouble),
        ("distribution", unable_to(assignment) if assignment is not None else ""),
        ("coordinator", coordinator_presence.describe(state)),
        ("wire", wire_fault(state.identity.wire, state.presence.wire)),
    ):
        if text:
            yield OpenProblem(about, text, hinders=True, key="trouble")


def _unanswered(state: AgentState, *, moving: bool) -> Iterator[OpenProblem]:
    """Yield what the coordinator leaves without an answer."""
    presence = state.presence
    text = ""
    if not presence.connected:
        return  # the shell knows why
    if len(presence.beside) > 1:
        runs = " and ".join(presence.beside)
        text = (
            f"coordinator: {len(presence.beside)} run for this fleet ({runs}), perhaps by a copied "
            "home or a restored backup; this device keeps what it has until one is left; ask "
            "their operator to stop the others"
        )
    elif presence.coordinator is None:
        text = (
            "coordinator: none serves this fleet now, so this device gives and gets nothing; ask "
            "its operator"
        )
    elif state.enrolling.holds_back:
        text = (
            "key: the coordinator has not confirmed this device's key, and nothing else is said "
            "before; ask its operator for a token, then `fleetledger agent enrol`"
        )
    elif not presence.welcomed:
        text = (
            "coordinator: it serves, and does not welcome this device; ask its operator whether "
            "this device is admitted or revoked"
        )
    if text:
        yield OpenProblem("coordinator", text, True, PATIENCE_SECONDS, "unanswered")
        return
    outbox, deferred = state.records.outbox, state.sending.deferred
    reasons = [deferred[key].reason for key in outbox if key in deferred]
    if reasons:
        messages = "1 message waits" if len(reasons) == 1 else f"{len(reasons)} messages wait"
        text = f"outbox: {messages} here, put off by the coordinator: {reasons[0]}"
        yield OpenProblem("outbox", text, True, PATIENCE_SECONDS, "put off")
    sent = (state.sending.tries.get(key) for key in outbox if key not in deferred)
    waiting = 0 if moving else sum(item is not None and item.count >= _TRIES for item in sent)
    if waiting:
        messages = "1 message has" if waiting == 1 else f"{waiting} messages have"
        text = (
            f"outbox: {messages} been sent again and again, and no receipt comes; see the "
            "coordinator's log, and what the broker refuses"
        )
        yield OpenProblem("outbox", text, True, PATIENCE_SECONDS, "receipts")


def _left_out_samples(state: AgentState) -> Iterator[OpenProblem]:
    found = left_out(state)
    for digest in sorted(found, key=lambda digest: state.scanning.images[digest].path)[:_SAMPLES]:
        yield OpenProblem("sample", sample_text(state, digest, found[digest]))
    if len(found) > _SAMPLES:
        text = f"{len(found)} samples are left out in all; the log names each"
        yield OpenProblem("sample", text, key="others")
