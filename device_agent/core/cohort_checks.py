"""What a device checks of a cohort before it gives anything in it, and of each step after that.

A coordinator that lies about a cohort must not get one device's numbers: not by members that it
made up where the device has a root, not by another view of the same cohort, and not by the word
that a member is silent to some and present to others.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.device_agent.core.records import Masking
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.cohorts import CohortMember, CohortOrder, DeviceRoster
from fleetledger.schemas.errors import ProofError, SignatureError
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.presence import SeenCheckpoint
from fleetledger.schemas.proofs.entry import check_entry
from fleetledger.schemas.values import DeviceId, Digest, FleetId

FORMED = "cohort.formed"


@dataclass(frozen=True)
class CohortTrust:
    """What a device's owner asks of a cohort."""

    least: int
    """Fewest members."""
    coordinator_key: VerifyKey | None = None
    """Who must have signed that the ledger has the cohort; None where no proof is asked for."""
    seen: SeenCheckpoint | None = None
    roster: Digest | None = None
    """Of the devices that the root names; None where the owner gave no root, or it names none."""


@dataclass(frozen=True)
class Oneself:
    """Who checks."""

    fleet: FleetId
    device: DeviceId
    key: VerifyKey | None


def own_member(order: CohortOrder, masking: Masking) -> CohortMember | None:
    """Return the member that is this device by what it joined with; None where there is none."""
    joined = (member for member in order.cohort.members if member.joining == masking.joining)
    return next(joined, None)


def check_formed(
    order: CohortOrder,
    masking: Masking,
    own: Oneself,
    trust: CohortTrust,
    roster: DeviceRoster | None,
) -> None:
    """Raise `SchemaError` unless the device may give its words to a cohort.

    That no two members have one key, and that the threshold is no lower than two thirds, the
    order's own form says.
    """
    members = order.cohort.members
    mine = own_member(order, masking)
    if mine is None or mine.device != own.device:
        raise ProofError(f"members: {str(own.device)!r} is none, by what this device joined with")
    if own.key is not None and mine.key != own.key:
        raise SignatureError("members: this device stands there with a key that it does not have")
    if len(members) < trust.least:
        raise ProofError(
            f"members: {count_of(len(members), 'device')}; this device's owner asks for "
            f"{trust.least} (privacy.least_cohort in agent.toml)"
        )
    if trust.coordinator_key is not None:
        _check_proof(order, own.fleet, trust.coordinator_key, trust.seen)
    for member in members:
        member.check(own.fleet, roster)


def _check_proof(
    order: CohortOrder, fleet: FleetId, key: VerifyKey, seen: SeenCheckpoint | None
) -> None:
    """Raise unless the ledger that the coordinator signed has just this cohort."""
    if order.proof is None:
        raise ProofError(
            f"cohort {order.cohort.number}: no proof came with it that the ledger has it; the "
            "coordinator signs from its next start on"
        )
    proven = check_entry(order.proof, fleet, [key])
    if proven.kind != FORMED or proven.body.get("cohort") != order.cohort.model_dump(mode="json"):
        raise ProofError(
            f"cohort {order.cohort.number}: the proof is of entry {proven.index}, "
            f"{proven.kind!r}, which says something else; another view of the ledger"
        )
    newest = proven.checkpoint
    if seen is not None and newest.size == seen.size and newest.root != seen.root:
        raise ProofError(
            f"cohort {order.cohort.number}: the ledger has two roots at "
            f"{count_of(seen.size, 'entry', 'entries')}: two histories"
        )


def step_fault(order: CohortOrder, masking: Masking) -> str:
    """Return why a step of the cohort that the device gave its words to is none; else empty."""
    number = order.cohort.number
    if order.cohort.name != masking.cohort:
        return f"cohort {number}: it is another one than that to which this device gave its words"
    back = sorted({*masking.silent} - {*order.silent})
    if back:
        return (
            f"cohort {number}: {str(back[0])!r} was silent, and is said to be present now; this "
            "device told its seed, and tells no share of its mask"
        )
    return ""


def read_roster(data: bytes, trust: CohortTrust) -> DeviceRoster | None:
    """Return the roster that the root names; None where it names none."""
    return None if trust.roster is None else DeviceRoster.read(data, trust.roster)


def roster_fault(order: CohortOrder, trust: CohortTrust) -> str:
    """Return why the members cannot be compared with the root; empty where they can."""
    offered = None if order.roster is None else order.roster.digest
    if trust.roster in (None, offered):
        return ""
    return (
        f"roster: {trust.roster.short if trust.roster else ''} is named by this device's root, and "
        f"{'none' if offered is None else offered.short} came with the cohort"
    )
