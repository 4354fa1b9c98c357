"""Rules of the outbox: a message is sent again and again until its receipt arrives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from fleetledger.device_agent.core import cohorts, inputs
from fleetledger.device_agent.core.changes import Durable, Put
from fleetledger.device_agent.core.decision import (
    NOTHING_TO_DO,
    AgentDecision,
    Waits,
    change,
    tried,
)
from fleetledger.device_agent.core.draft import Draft, Refusal
from fleetledger.device_agent.core.log_words import Line, because, of_part, warning
from fleetledger.device_agent.core.notices import problem, report_happened
from fleetledger.device_agent.core.policy import may_send
from fleetledger.device_agent.core.presence import merge_held
from fleetledger.device_agent.core.proofs import doubt, seen_after
from fleetledger.device_agent.core.records import (
    Deferral,
    OutboxKey,
    OutboxMessage,
    PartState,
    PresenceState,
    Sending,
    Try,
)
from fleetledger.device_agent.core.requests import SendOutboxMessage
from fleetledger.device_agent.core.state import AgentState
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.contributions import Contribution, HeldPart, PartKey
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.receipts import Accepted, Later, Receipt, Refused
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.rollouts import ModelComparison

_PUT_OFF_SHARE = 0.1
"""Part of the time for which a message was put off that it waits for the next attempt."""


def receipt_arrived(state: AgentState, event: inputs.ReceiptArrived, now: float) -> AgentDecision:
    """Take accepted and refused as final, later as not; repeats and strangers change nothing."""
    receipt = event.receipt
    named = (receipt.about, receipt.key)
    key = next((key for key in state.records.outbox if key == named), None)
    if isinstance(receipt.answer, Refused) and receipt.answer.retracted and key is None:
        return _retracted(state, receipt, receipt.answer)
    if key is None or state.records.outbox[key].revision != receipt.revision:
        return NOTHING_TO_DO
    message = state.records.outbox[key]
    body = message.body
    if isinstance(body, Contribution | PrototypeGradients) and receipt.payload not in (
        None,
        body.payload,
    ):
        return NOTHING_TO_DO  # of an earlier installation, whose message arrived late
    match receipt.answer:
        case Accepted() as answer:
            return _proven(state, key, message, answer)
        case Refused(reason=reason):
            return _not_taken(state, key, message, reason)
        case Later() as answer:
            return change(_defer(state, key, answer, now))


def _proven(
    state: AgentState, key: OutboxKey, message: OutboxMessage, answer: Accepted
) -> AgentDecision:
    """Take a receipt as final if it proves what it says, where this device asks for that."""
    if state.rules.trust is None or key.about == "gradients":  # the proxy keeps no ledger
        return _accepted(state, key, message)
    try:
        seen = seen_after(state, key, message, answer)
    except SchemaError as error:
        text = doubt(key, error)
        return change(report_happened(state.told, [problem("ledger", text)], state.rules))
    news = NOTHING_TO_DO if seen == state.records.seen else change(Put(seen=seen))
    return news + _accepted(state, key, message)


def _accepted(state: AgentState, key: OutboxKey, message: OutboxMessage) -> AgentDecision:
    changes = (
        acceptance_noted(key),
        _held_after(state.presence, key, message),
        replace(state.files, littered=True),
        replace(state.work, settled=False),
    )
    return AgentDecision(changes)


def acceptance_noted(message: OutboxKey) -> Durable:
    """Let a message and its payload go, whose receipt arrived.

    What came behind masks is given once the cohort opens.
    """

    def write(draft: Draft) -> None:
        masked = getattr(draft.outbox[message].body, "cohort", None) is not None
        draft.take_out(message)
        if not masked:
            _mark_part(draft, message, "accepted")

    text = f"{message.words} was received"
    return Durable(write, Line("contribution.received", text, message.fields))


def _mark_part(draft: Draft, message: OutboxKey, mark: PartState) -> None:
    # An answer to a round is no part.
    if message.about == "contribution" and message.key in draft.parts:
        draft.parts[message.key] = replace(draft.parts[message.key], state=mark)


def _held_after(presence: PresenceState, key: OutboxKey, message: OutboxMessage) -> PresenceState:
    """Return what is known to be held after a message was accepted."""
    if isinstance(message.body, Contribution) and message.body.round is None:
        held = HeldPart(key=key.key, revision=message.revision, payload=message.body.payload)
        return replace(presence, held=merge_held(presence.held, [held]))
    if key.about == "withdrawal":
        return _without(presence, key)
    return presence


def _without(presence: PresenceState, key: OutboxKey) -> PresenceState:
    return replace(presence, held={k: v for k, v in presence.held.items() if k != key.key})


def _not_taken(
    state: AgentState, key: OutboxKey, message: OutboxMessage, reason: str
) -> AgentDecision:
    """Take a refusal as the message asks for: what is late for a cohort goes into another one."""
    if isinstance(message.body, Contribution) and message.body.cohort is not None:
        return cohorts.words_refused(state, key, reason)
    if key.about == "cohort-join":
        return cohorts.join_refused(state, key, reason)
    if key.about == "cohort-reveal":  # its cohort needs nothing more, or is over
        return change(Durable(lambda draft: draft.take_out(key)))
    return _refused(state, key, reason)


def _refused(state: AgentState, key: OutboxKey, reason: str) -> AgentDecision:
    presence = state.presence
    if key.about == "withdrawal":
        # Not withdrawn again in this connection; the next welcome says what is still held.
        presence = _without(presence, key)
    changes = (
        refusal_noted(key, reason),
        presence,
        report_happened(state.told, [refusal_problem(key, reason)], state.rules),
        replace(state.files, littered=True),
        replace(state.work, settled=False),
    )
    return AgentDecision(changes)


def refusal_noted(message: OutboxKey, reason: str) -> Durable:
    """Move a message that is refused for good to the dead letters, with the reason."""

    def write(draft: Draft) -> None:
        refused = draft.outbox[message]
        draft.refuse(Refusal(message, refused.revision, refused.body, reason))
        draft.take_out(message)
        _mark_part(draft, message, "refused")

    text = f"{message.words} is refused{because(reason)}"
    return Durable(
        write, warning("contribution.refused", text, **{**message.fields, "reason": reason})
    )


def refusal_problem(key: OutboxKey, reason: str) -> Problem:
    """Return what is told of a message that was refused for good."""
    return problem(key.about, f"{key.words}: refused: {reason}")


def _retracted(state: AgentState, receipt: Receipt, answer: Refused) -> AgentDecision:
    """Give a part no more that was accepted, and that the operator took out since."""
    key, part = receipt.key, state.records.parts.get(receipt.key)
    if part is None or part.state != "accepted":
        return NOTHING_TO_DO  # known already, or of an earlier installation
    changes = (  # no problem is told: the operator did it, and the ledger says so
        part_retracted(key, answer.reason),
        _without(state.presence, OutboxKey("contribution", key)),
        replace(state.files, littered=True),
        replace(state.work, settled=False),
    )
    return AgentDecision(changes)


def part_retracted(key: PartKey, reason: str) -> Durable:
    """Mark an accepted part that the operator took out: its images stay counted, and unsent."""

    def write(draft: Draft) -> None:
        message = OutboxKey("contribution", key)
        draft.refuse(Refusal(message, draft.parts[key].revision, None, reason))
        _mark_part(draft, message, "refused")

    text = f"part {key.part} of stage {key.stage} was taken out{because(reason)}"
    return Durable(write, warning("part.retracted", text, **of_part(key, reason=reason)))


def messages_due(state: AgentState, now: float) -> AgentDecision:
    """Send messages that are due, withdrawals first, a few under way at a time."""
    if not state.presence.welcomed:
        return NOTHING_TO_DO
    waits = Waits(state.rules.message_shortest, state.rules.message_longest)
    tries = {key: item for key, item in state.sending.tries.items() if key in state.records.outbox}
    requests = []
    for key, message in _under_way(state):
        before = tries.get(key, Try(0, now))
        if now >= before.due:
            tries[key] = tried(before, now, waits, state.identity.boot, key)
            requests.append(SendOutboxMessage(key, message.body))
    if not requests:
        return NOTHING_TO_DO
    deferred = {k: v for k, v in state.sending.deferred.items() if k in state.records.outbox}
    return AgentDecision((Sending(tries, deferred),), tuple(requests))


def _under_way(state: AgentState) -> Iterator[tuple[OutboxKey, OutboxMessage]]:
    """Yield the messages that are on their way; those to the proxy hold up no other."""
    most = state.rules.messages_under_way
    deferred = state.sending.deferred
    # What the coordinator puts off may wait for long, and holds up no other.
    yield from islice(sorted(_sendable(state), key=lambda item: item[0] in deferred), most)
    yield from islice(_for_proxy(state), most)


def _for_proxy(state: AgentState) -> Iterator[tuple[OutboxKey, OutboxMessage]]:
    for key, message in state.records.outbox.items():
        if key.about == "gradients" and _may_go(state, message):
            yield key, message


def _sendable(state: AgentState) -> Iterator[tuple[OutboxKey, OutboxMessage]]:
    outbox = {key: item for key, item in state.records.outbox.items() if key.about != "gradients"}
    withdrawals = [(key, item) for key, item in outbox.items() if key.about == "withdrawal"]
    if withdrawals:
        yield from withdrawals
        return
    yield from ((key, item) for key, item in outbox.items() if _may_go(state, item))


def _may_go(state: AgentState, message: OutboxMessage) -> bool:
    """Whether the one at the other end can take a message now, and this device's policy lets it go.

    What belongs to another frozen model, or to a stage that a restored ledger has not opened yet,
    would be refused for good; it waits.
    """
    assignment, body = state.records.assignment, message.body
    if isinstance(body, ModelComparison):
        return True  # a fleet may push models and learn nothing
    if assignment is None:
        return False
    if isinstance(body, Contribution | PrototypeGradients):
        return (
            body.lineage == assignment.lineage
            and body.key.stage <= assignment.stage
            and may_send(state.rules, body)
        )
    return True


def next_message(state: AgentState, now: float) -> float | None:
    """Return when a message that is under way is due again."""
    if not state.presence.welcomed:
        return None
    tries: dict[OutboxKey, Try] = dict(state.sending.tries)
    return min(
        (item.due for key, item in tries.items() if key in state.records.outbox and item.due > now),
        default=None,
    )


def _defer(state: AgentState, key: OutboxKey, answer: Later, now: float) -> Sending:
    """Return when a message goes again: the longer it is put off, the less often it asks."""
    sending, longest = state.sending, state.rules.message_longest
    known = sending.deferred.get(key)
    since = now if known is None else known.since
    wait = max(answer.after_seconds, min(longest, _PUT_OFF_SHARE * (now - since)))
    count = sending.tries.get(key, Try(0, now)).count
    return Sending(
        {**sending.tries, key: Try(count, now + wait)},
        {**sending.deferred, key: Deferral(since, answer.reason)},
    )
