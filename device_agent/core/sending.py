"""Rules of the outbox: a letter is sent again and again until its receipt arrives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from device_agent.core import inputs
from device_agent.core.changes import (
    CheckpointSeen,
    LetterAccepted,
    LetterRefused,
    PartRetracted,
)
from device_agent.core.decision import NOTHING_TO_DO, Decision, Waits, change, tried
from device_agent.core.policy import may_send
from device_agent.core.presence import merge_held
from device_agent.core.proofs import doubt, seen_after
from device_agent.core.records import Letter, LetterKey, Presence, Sending, Try
from device_agent.core.requests import SendLetter
from device_agent.core.state import State
from device_agent.core.telling import problem, tell
from schemas.contributions import Contribution, HeldPart
from schemas.errors import SchemaError
from schemas.proxy import PrototypeGradients
from schemas.receipts import Accepted, Later, Receipt, Refused


def receipt_arrived(state: State, event: inputs.ReceiptArrived, now: float) -> Decision:
    """Take accepted and refused as final, later as not; repeats and strangers change nothing."""
    receipt = event.receipt
    named = (receipt.about, receipt.key)
    key = next((key for key in state.records.outbox if key == named), None)
    if isinstance(receipt.answer, Refused) and receipt.answer.retracted and key is None:
        return _retracted(state, receipt, receipt.answer)
    if key is None or state.records.outbox[key].revision != receipt.revision:
        return NOTHING_TO_DO
    letter = state.records.outbox[key]
    body = letter.body
    if isinstance(body, Contribution | PrototypeGradients) and receipt.payload not in (
        None,
        body.payload,
    ):
        return NOTHING_TO_DO  # of an earlier installation, whose letter arrived late
    match receipt.answer:
        case Accepted() as answer:
            return _proven(state, key, letter, answer)
        case Refused(reason=reason):
            return _refused(state, receipt, key, reason)
        case Later(after_seconds=seconds):
            before = state.sending.tries.get(key, Try(0, now))
            return change(_with_try(state.sending, key, Try(before.count, now + seconds)))


def _proven(state: State, key: LetterKey, letter: Letter, answer: Accepted) -> Decision:
    """Take a receipt as final if it proves what it says, where this device asks for that."""
    if state.rules.trust is None or key.about == "gradients":  # the proxy keeps no ledger
        return _accepted(state, key, letter)
    try:
        seen = seen_after(state, key, letter, answer)
    except SchemaError as error:
        text = doubt(key, error)
        return change(tell(state.told, [problem("ledger", text)], state.rules))
    news = NOTHING_TO_DO if seen == state.records.seen else change(CheckpointSeen(seen))
    return news + _accepted(state, key, letter)


def _accepted(state: State, key: LetterKey, letter: Letter) -> Decision:
    changes = (
        LetterAccepted(key),
        _held_after(state.presence, key, letter),
        replace(state.files, littered=True),
        replace(state.work, settled=False),
    )
    return Decision(changes)


def _held_after(presence: Presence, key: LetterKey, letter: Letter) -> Presence:
    """Return what is known to be held after a letter was accepted."""
    if isinstance(letter.body, Contribution) and letter.body.round is None:
        held = HeldPart(key=key.key, revision=letter.revision, payload=letter.body.payload)
        return replace(presence, held=merge_held(presence.held, [held]))
    if key.about == "withdrawal":
        return _without(presence, key)
    return presence


def _without(presence: Presence, key: LetterKey) -> Presence:
    return replace(presence, held={k: v for k, v in presence.held.items() if k != key.key})


def _refused(state: State, receipt: Receipt, key: LetterKey, reason: str) -> Decision:
    text = f"{key.about} of stage {key.key.stage}, part {key.key.part}: refused: {reason}"
    presence = state.presence
    if key.about == "withdrawal":
        # Not withdrawn again in this connection; the next welcome says what is still held.
        presence = _without(presence, key)
    changes = (
        LetterRefused(key, reason),
        presence,
        tell(state.told, [problem(receipt.about, text)], state.rules),
        replace(state.files, littered=True),
        replace(state.work, settled=False),
    )
    return Decision(changes)


def _retracted(state: State, receipt: Receipt, answer: Refused) -> Decision:
    """Give a part no more that was accepted, and that the operator took out since."""
    key, part = receipt.key, state.records.parts.get(receipt.key)
    if part is None or part.state != "accepted":
        return NOTHING_TO_DO  # known already, or of an earlier installation
    text = f"contribution of stage {key.stage}, part {key.part}: {answer.reason}"
    changes = (
        PartRetracted(key, answer.reason),
        _without(state.presence, LetterKey("contribution", key)),
        tell(state.told, [problem("contribution", text)], state.rules),
        replace(state.files, littered=True),
        replace(state.work, settled=False),
    )
    return Decision(changes)


def letters_due(state: State, now: float) -> Decision:
    """Send letters that are due, withdrawals first, a few under way at a time."""
    if not state.presence.welcomed:
        return NOTHING_TO_DO
    waits = Waits(state.rules.letter_shortest, state.rules.letter_longest)
    tries = {key: item for key, item in state.sending.tries.items() if key in state.records.outbox}
    requests = []
    for key, letter in _under_way(state):
        before = tries.get(key, Try(0, now))
        if now >= before.due:
            tries[key] = tried(before, now, waits, state.identity.boot, key)
            requests.append(SendLetter(key, letter.body))
    if not requests:
        return NOTHING_TO_DO
    return Decision((Sending(tries),), tuple(requests))


def _under_way(state: State) -> Iterator[tuple[LetterKey, Letter]]:
    """Yield the letters that are on their way; those to the proxy hold up no other."""
    most = state.rules.letters_under_way
    yield from islice(_sendable(state), most)
    yield from islice(_for_proxy(state), most)


def _for_proxy(state: State) -> Iterator[tuple[LetterKey, Letter]]:
    for key, letter in state.records.outbox.items():
        if key.about == "gradients" and _may_go(state, letter):
            yield key, letter


def _sendable(state: State) -> Iterator[tuple[LetterKey, Letter]]:
    outbox = {key: item for key, item in state.records.outbox.items() if key.about != "gradients"}
    withdrawals = [(key, item) for key, item in outbox.items() if key.about == "withdrawal"]
    if withdrawals:
        yield from withdrawals
        return
    yield from ((key, item) for key, item in outbox.items() if _may_go(state, item))


def _may_go(state: State, letter: Letter) -> bool:
    """Whether the one at the other end can take a letter now, and this device's policy lets it go.

    What belongs to another frozen model, or to a stage that a restored ledger has not opened yet,
    would be refused for good; it waits.
    """
    assignment = state.records.assignment
    if assignment is None:
        return False
    body = letter.body
    if isinstance(body, Contribution | PrototypeGradients):
        return (
            body.lineage == assignment.lineage
            and body.key.stage <= assignment.stage
            and may_send(state.rules, body)
        )
    return True


def next_letter(state: State, now: float) -> float | None:
    """Return when a letter that is under way is due again."""
    if not state.presence.welcomed:
        return None
    tries: dict[LetterKey, Try] = dict(state.sending.tries)
    return min(
        (item.due for key, item in tries.items() if key in state.records.outbox and item.due > now),
        default=None,
    )


def _with_try(sending: Sending, key: LetterKey, item: Try) -> Sending:
    return Sending({**sending.tries, key: item})
