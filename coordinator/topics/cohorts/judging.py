"""What becomes of what devices say of cohorts, judged by the state alone."""

from __future__ import annotations

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.cohorts import entries
from fleetledger.coordinator.topics.cohorts.state import CohortProgress, Joined
from fleetledger.schemas.cohorts import CohortJoin, CohortMember, CohortReveal
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.receipts import Accepted, Answer, Refused
from fleetledger.schemas.values import DeviceId, FleetId

Judged = EntryBody | Answer | str
"""What a message becomes: an entry, an answer, or why it is to come again later."""


def judge_join(
    state: State, fleet: FleetId | None, device: DeviceId, body: CohortJoin
) -> Judged | None:
    """Return what becomes of a device's word that it has something ready; None if it came late."""
    of, lineage = body.joining, state.lineages.current
    word, cohort = state.cohorts.words.get(device), state.cohorts.of(device)
    installation = state.devices.admitted[device].installation
    if word is not None and word.installation == installation and of.serial <= word.serial:
        if of.serial < word.serial:
            return None
        before = None if word.cohort is None else state.cohorts.by_number[word.cohort]
        taken = before is not None and before.has(device) and before.step != "ended"
        # Who is silent, or whose cohort ended, may know nothing of it yet, and waits on.
        if taken or device in state.cohorts.joined:
            return Accepted(ledger_index=word.index)
    if cohort is not None and cohort.is_open:
        return f"cohort: this device is in cohort {cohort.body.number}, which is not over"
    if of.stage not in state.stages.by_number or lineage is None:
        return f"stage: {of.stage} was never opened; it waits for an assignment"
    if not state.stages.masked(of.stage):
        return Refused(reason=f"stage: {of.stage} is not summed behind masks; give the part itself")
    if of.lineage != lineage.digest:
        return (
            f"lineage: {of.lineage.short} leads no more, {lineage.digest.short} does; join with "
            "what was made with that"
        )
    if fault := _round_fault(state, device, of.round) or _undo_fault(state, of.undoes):
        return Refused(reason=fault)
    if fleet is not None:
        try:
            member_of(state, device, body).check(fleet, None)
        except SignatureError as error:
            return Refused(reason=f"signature: {error}")
    key = state.keys.of(device).key
    if key is not None and body.signature is None:
        return Refused(reason="signature: missing; the other members check it with this device's")
    return entries.CohortJoined(joining=of, signature=body.signature, installation=installation)


def member_of(state: State, device: DeviceId, said: CohortJoin | Joined) -> CohortMember:
    """Return the member that a device is by its word and its key."""
    key = state.keys.of(device).key
    signature = None if key is None else said.signature
    return CohortMember(device=device, joining=said.joining, key=key, signature=signature)


def _round_fault(state: State, device: DeviceId, number: int | None) -> str:
    """Return why a device has nothing to give to a round; empty where it has."""
    if (number is not None) != state.lineages.in_rounds:
        return "round: missing" if number is None else f"round: {number}; this fleet has none"
    if number is None:
        return ""
    current = state.rounds.by_number.get(number)
    if current is None or current.closed is not None or device not in current.cohort:
        return f"round: {number} does not wait for this device"
    return ""


def _undo_fault(state: State, number: int | None) -> str:
    if number is None:
        return ""
    cohort = state.cohorts.by_number.get(number)
    held = None if cohort is None else state.contributions.of(cohort.body.device).held_parts()
    return "" if held else f"undoes: cohort {number} is in no sum; there is nothing to take out"


def judge_reveal(state: State, device: DeviceId, body: CohortReveal) -> Judged:
    """Return what becomes of what a member tells of others."""
    cohort = state.cohorts.by_number.get(body.number)
    if cohort is None:
        return Refused(reason=f"number: cohort {body.number} was never formed")
    what = entries.SEEDS if body.seeds else entries.SHARES
    told = (cohort.seeds if body.seeds else cohort.shares).get(device, {})
    said = body.seeds or body.shares
    index = cohort.reveals.get(device, {}).get(what)
    if index is not None and (not cohort.is_open or said.items() <= told.items()):
        return Accepted(ledger_index=index)
    if not cohort.has(device):
        return Refused(reason=f"number: cohort {body.number} goes on without this device")
    unaware = not cohort.is_open and state.cohorts.of_device.get(device) == body.number
    if cohort.step != ("silent" if body.seeds else "opening") and (body.seeds or not unaware):
        return Refused(
            reason=f"number: cohort {body.number} does not ask for this now; look at the assignment"
        )
    asked = set(cohort.silent if body.seeds else cohort.present)
    if strangers := sorted(said.keys() - asked):
        return Refused(
            reason=f"{'seeds' if body.seeds else 'shares'}: of {str(strangers[0])!r} nobody asked; "
            f"tell those of {some(sorted(asked))}"
        )
    if any(told.get(of, value) != value for of, value in said.items()):
        return Refused(reason=f"number: this device told cohort {body.number} otherwise before")
    return entries.CohortRevealed(reveal=body)


def judge_words(state: State, device: DeviceId, body: Contribution) -> Answer | None:
    """Return the answer to words behind masks that needs no look at them; None to take them in."""
    assert body.cohort is not None
    number = body.cohort.number
    cohort = state.cohorts.by_number.get(number)
    if cohort is None:
        return Refused(reason=f"cohort: {number} was never formed; join one")
    given = state.contributions.masked.get(number, {}).get(device)
    if given is not None:
        if given.payload == body.payload:
            return Accepted(ledger_index=given.index)
        return Refused(reason=f"cohort: this device gave cohort {number} other words before")
    if not cohort.has(device):
        return Refused(reason=f"cohort: {number} goes on without this device; join another one")
    index = _words_index(state, device, body)
    if index is not None:
        return Accepted(ledger_index=index)
    if cohort.step != "mask":
        return Refused(reason=f"cohort: {number} is over, or has these words; join another one")
    of = next(m.joining for m in cohort.body.members if m.device == device)
    answers = None if body.round is None else body.round.number
    if (of.stage, of.part, of.round) != (body.key.stage, body.key.part, answers):
        return Refused(reason=f"key: this device joined cohort {number} with another part")
    others = {one for one in cohort.body.devices if one != device}
    if body.cohort.shares.keys() != others:
        return Refused(reason=f"cohort.shares: give one for each other member of cohort {number}")
    return None


def _words_index(state: State, device: DeviceId, body: Contribution) -> int | None:
    """Return the entry of words that came before, also once their cohort is over."""
    if body.round is not None:
        answer = state.rounds.of(device).answers.get(body.round.number)
        return answer.index if answer is not None and answer.payload == body.payload else None
    part = state.contributions.of(device).parts.get(body.key)
    return part.index if part is not None and part.payload == body.payload else None


def owing(state: State, cohort: CohortProgress) -> list[DeviceId]:
    """Return the members that have not done what a cohort's step asks."""
    if cohort.step != "mask":
        return cohort.owes()
    given = state.contributions.masked.get(cohort.body.number, {})
    return [device for device in cohort.present if device not in given]
