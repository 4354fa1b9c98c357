"""Rules of proofs: a receipt counts once the coordinator's key vouches for the entry that it names.

Where the owner has written the coordinator's public key into `agent.toml`, a receipt must prove
that the ledger holds this device's message: by the entry itself, the way to the root, and a signed
checkpoint. The newest checkpoint is remembered as long as each follows from the one before, so a
ledger that was cut short, or that tells this device another history than others, is noticed. A
receipt that proves nothing changes nothing: the message stays in the outbox, and the owner is told.
"""

from __future__ import annotations

from typing import Any

from fleetledger.device_agent.core.cohort_checks import FORMED
from fleetledger.device_agent.core.records import OutboxKey, OutboxMessage
from fleetledger.device_agent.core.state import AgentState
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.cohorts import CohortJoin, CohortReveal
from fleetledger.schemas.contributions import Contribution, Nothing, Withdrawal
from fleetledger.schemas.errors import ProofError
from fleetledger.schemas.presence import SeenCheckpoint
from fleetledger.schemas.proofs.checkpoint import Checkpoint
from fleetledger.schemas.proofs.entry import ProvenEntry, check_entry
from fleetledger.schemas.receipts import ENTRY_OF, Accepted
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.rollouts import ModelComparison
from fleetledger.schemas.values import DeviceId


def seen_after(
    state: AgentState, key: OutboxKey, message: OutboxMessage, answer: Accepted
) -> SeenCheckpoint:
    """Return the newest checkpoint known after a receipt; raise `SchemaError` where it is none.

    Only a device that has the coordinator's key asks.
    """
    trust, seen = state.rules.trust, state.records.seen
    assert trust is not None
    if answer.proof is None:
        raise ProofError("no proof came with it; the coordinator signs from its next start on")
    proven = check_entry(answer.proof, trust.fleet, [trust.coordinator_key])
    _check_is_about(proven, trust.device, key, message)
    newest = proven.checkpoint
    if seen is None or _has_grown(seen, newest, answer):
        return SeenCheckpoint(size=newest.size, root=newest.root)
    return seen


def _check_is_about(
    proven: ProvenEntry, device: DeviceId, key: OutboxKey, message: OutboxMessage
) -> None:
    """Raise `ProofError` unless an entry says that this device's message was taken."""
    expected = _entries_of(key, message).get(proven.kind)
    if isinstance(message.body, CohortJoin) and proven.kind == FORMED:
        # It was named in a cohort before the receipt came.
        members = proven.body.get("cohort", {}).get("members", ())
        joining = message.body.joining.model_dump(mode="json")
        if any(member.get("joining") == joining for member in members):
            return
    if proven.device != device or expected is None or not _says(proven.body, expected):
        raise ProofError(
            f"it proves entry {proven.index}, {proven.kind!r} of {proven.device!r}, which does not "
            "say that this was taken"
        )


def _entries_of(key: OutboxKey, message: OutboxMessage) -> dict[str, dict[str, Any]]:
    """Return the kinds of entry that a message may become, and what must stand in each."""
    body = message.body
    part = key.key.model_dump(mode="json")
    if isinstance(body, Contribution):
        wanted = {"key": part, "revision": body.revision, "payload": body.payload}
        return {ENTRY_OF["contribution"]: {"part": wanted}}
    if isinstance(body, Withdrawal):
        return {ENTRY_OF["withdrawal"]: {"withdrawal": {"key": part, "revision": body.revision}}}
    if isinstance(body, Nothing):
        nothing = {"nothing": {"stage": body.stage, "round": body.round}}
        if body.round is None:
            return {ENTRY_OF["nothing"]: nothing}
        # A round that this device had answered before needs no second entry.
        answer = {"part": {"round": {"number": body.round}}}
        return {ENTRY_OF["nothing"]: nothing, ENTRY_OF["contribution"]: answer}
    if isinstance(body, CohortJoin):
        return {ENTRY_OF["cohort-join"]: {"joining": body.joining.model_dump(mode="json")}}
    if isinstance(body, CohortReveal):
        return {ENTRY_OF["cohort-reveal"]: {"reveal": {"number": body.number}}}
    if isinstance(body, ModelComparison):
        return {ENTRY_OF["comparison"]: {"comparison": body.model_dump(mode="json")}}
    assert isinstance(body, Transition)
    transition = {"stage": body.stage, "number": body.number}
    return {ENTRY_OF["transition"]: {"transition": transition}}


def _says(found: object, expected: object) -> bool:
    """Return whether all that is expected stands in JSON, whatever else does."""
    if not isinstance(expected, dict):
        return found == expected
    return isinstance(found, dict) and all(
        name in found and _says(found[name], value) for name, value in expected.items()
    )


def _has_grown(seen: SeenCheckpoint, newest: Checkpoint, answer: Accepted) -> bool:
    """Return whether the newest checkpoint is proven to go on from the one that was seen.

    Where nothing came that leads from one to the other, the older one stands until it does. Raises
    `ProofError` where they are of two histories.
    """
    if newest.size < seen.size:
        raise ProofError(
            f"the ledger has {count_of(newest.size, 'entry', 'entries')}, and had {seen.size}; "
            f"it was cut short or "
            "restored from a backup. If that is meant, `fleetledger agent forget --checkpoint`"
        )
    if newest.size == seen.size:
        if newest.root != seen.root:
            raise ProofError(
                f"the ledger has two roots at "
                f"{count_of(seen.size, 'entry', 'entries')}: two histories"
            )
        return False
    grown = answer.grown
    if grown is None or (grown.first, grown.second) != (seen.size, newest.size):
        return False
    grown.check(seen.root, newest.root)
    return True


def doubt(key: OutboxKey, error: SchemaError) -> str:
    """Return what the owner is told of a receipt that proves nothing."""
    return f"receipt for {key.words}: not believed: {error}"
