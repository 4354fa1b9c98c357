"""What becomes of masked cohorts: joined, formed, silent, revealed, opening, summed, ended."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import (
    Follows,
    Kind,
    LedgerTopic,
    Notification,
    changes_nothing,
)
from fleetledger.coordinator.core.phrases import count_of, some
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.cohorts import state
from fleetledger.coordinator.topics.devices.entries import DeviceRetired
from fleetledger.coordinator.topics.keys.entries import (
    DeviceEnrolled,
    DeviceKeyRevoked,
    DeviceKeyRotated,
)
from fleetledger.runtime.count_words import agree
from fleetledger.schemas.cohorts import (
    MOST_MEMBERS,
    CohortNumber,
    CohortReveal,
    Joining,
    MaskedCohort,
    cohort_device,
)
from fleetledger.schemas.keys import SignatureText
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.rounds import RoundNumber
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest

MAX_CAUSE = 500
SEEDS, SHARES = 1, 2
"""What a member told, as receipts number it."""


class CohortJoined(EntryBody):
    """A device has words ready, and waits to give them in a cohort."""

    kind: ClassVar[str] = "cohort.joined"
    joining: Joining
    signature: SignatureText | None = None
    installation: BootId | None = None
    """The installation of the device that said it."""

    def say(self, at: EntryContext) -> str:
        of, undoes = self.joining, self.joining.undoes
        what = f"part {of.part} of stage {of.stage}" if of.round is None else f"round {of.round}"
        again = "" if undoes is None else f" It takes out what it gave in cohort {undoes}."
        return f"Device {at.device} waits to give {what} behind masks.{again}"


def _join(cohorts: state.CohortsState, body: CohortJoined, at: EntryContext) -> None:
    cohorts.joined.pop(at.maker, None)
    cohorts.of_device.pop(at.maker, None)
    cohorts.words[at.maker] = state.Word(at.index, body.joining.serial, body.installation)
    cohorts.joined[at.maker] = state.Joined(at.index, at.time_ns, body.joining, body.signature)


class CohortFormed(EntryBody):
    """Devices are a cohort: each gives its words behind masks that vanish in their sum."""

    kind: ClassVar[str] = "cohort.formed"
    cohort: MaskedCohort

    def say(self, at: EntryContext) -> str:
        of = self.cohort
        what = f"stage {of.stage}" if of.round is None else f"round {of.round}"
        return (
            f"Cohort {of.number} of {what} is {count_of(len(of.members))}, of which "
            f"{of.threshold} open its sum: {some(of.devices)}."
        )


def _form(cohorts: state.CohortsState, body: CohortFormed, at: EntryContext) -> None:
    number = body.cohort.number
    cohorts.by_number[number] = state.CohortProgress(body.cohort, at.index, at.time_ns)
    for device in body.cohort.devices:
        cohorts.joined.pop(device, None)
        cohorts.of_device[device] = number
        if device in cohorts.words:
            cohorts.words[device] = replace(cohorts.words[device], cohort=number)
        cohorts.actions[device] = at.index


class CohortSilent(EntryBody):
    """Members gave nothing in time: the others tell the seeds that they had with these."""

    kind: ClassVar[str] = "cohort.silent"
    number: CohortNumber
    silent: tuple[DeviceId, ...] = Field(max_length=MOST_MEMBERS)
    """All that are silent so far; there may be none."""
    present: tuple[DeviceId, ...] = Field(max_length=MOST_MEMBERS)

    def say(self, at: EntryContext) -> str:
        if not self.silent:
            return f"All {count_of(len(self.present), 'member')} of cohort {self.number} answered."
        return (
            f"Cohort {self.number} goes on without {some(self.silent)}: "
            f"{count_of(len(self.present), 'member')} {agree(len(self.present), 'is', 'are')} left."
        )


def _fall_silent(cohorts: state.CohortsState, body: CohortSilent, at: EntryContext) -> None:
    cohort = cohorts.by_number[body.number]
    cohort.step, cohort.silent, cohort.began_ns = "silent", body.silent, at.time_ns
    for device in body.silent:
        if cohorts.of_device.get(device) == body.number:
            del cohorts.of_device[device]
    for device in cohort.body.devices:
        cohorts.actions[device] = at.index


class CohortOpening(EntryBody):
    """Nobody is missing any more: present members tell their shares of each other's own mask."""

    kind: ClassVar[str] = "cohort.opening"
    number: CohortNumber
    present: tuple[DeviceId, ...] = Field(max_length=MOST_MEMBERS)

    def say(self, at: EntryContext) -> str:
        return (
            f"Cohort {self.number} opens: {count_of(len(self.present), 'member')} "
            f"{agree(len(self.present), 'is', 'are')} in its sum."
        )


def _open(cohorts: state.CohortsState, body: CohortOpening, at: EntryContext) -> None:
    cohort = cohorts.by_number[body.number]
    cohort.step, cohort.began_ns, cohort.opened = "opening", at.time_ns, True
    for device in body.present:
        cohorts.actions[device] = at.index


class CohortRevealed(EntryBody):
    """A member told seeds of the silent, or shares of the masks of those present."""

    kind: ClassVar[str] = "cohort.revealed"
    reveal: CohortReveal

    @property
    def what(self) -> int:
        """1 for seeds, 2 for shares."""
        return SEEDS if self.reveal.seeds else SHARES

    def say(self, at: EntryContext) -> str:
        seeds, shares = len(self.reveal.seeds), len(self.reveal.shares)
        what = count_of(seeds, "seed") if seeds else count_of(shares, "share")
        return f"Device {at.device} told {what} of cohort {self.reveal.number}."


def _reveal(cohorts: state.CohortsState, body: CohortRevealed, at: EntryContext) -> None:
    cohort = cohorts.by_number[body.reveal.number]
    if cohort.step == "summed":  # it opened without this member's shares
        cohorts.of_device.pop(at.maker, None)
        cohort.reveals.setdefault(at.maker, {})[body.what] = at.index
        return
    cohort.seeds.setdefault(at.maker, {}).update(body.reveal.seeds)
    cohort.shares.setdefault(at.maker, {}).update(body.reveal.shares)
    cohort.reveals.setdefault(at.maker, {})[body.what] = at.index


class CohortSummed(EntryBody):
    """The masks are off the sum of a cohort, which counts as one part or answer from here on."""

    kind: ClassVar[str] = "cohort.summed"
    number: CohortNumber
    stage: int = Field(ge=1)
    round: RoundNumber | None = None
    lineage: Digest
    members: tuple[DeviceId, ...] = Field(max_length=MOST_MEMBERS)
    """Members whose words are in it."""
    payload: Digest
    """As an unmasked part or answer has it."""
    payload_bytes: int = Field(ge=1)
    samples: dict[ClassName, int] = Field(default_factory=dict)
    """Number of images per class; of an answer to a round nobody knows it."""
    weight: int = Field(default=0, ge=0)
    """Of an answer to a round: the sum of the weights with which the members count."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The sum."""
        return (self.payload,)

    @property
    def device(self) -> DeviceId:
        """The name under which the sum counts."""
        return cohort_device(self.number)

    def say(self, at: EntryContext) -> str:
        members = count_of(len(self.members), "member")
        what = f"stage {self.stage}" if self.round is None else f"round {self.round}"
        samples = f" of {count_of(sum(self.samples.values()), 'sample')}" if self.samples else ""
        return (
            f"Cohort {self.number} of {what} is summed{samples} over {members}; it counts as "
            f"{self.device}."
        )


def _sum(cohorts: state.CohortsState, body: CohortSummed, at: EntryContext) -> None:
    cohort = cohorts.by_number[body.number]
    unaware = frozenset(cohort.present) - cohort.shares.keys()
    _over(cohorts, cohort, at.index, unaware)
    cohort.step, cohort.summed_index = "summed", at.index


class CohortEnded(EntryBody):
    """Nothing comes of a cohort; its members join anew, unless it was to be opened."""

    kind: ClassVar[str] = "cohort.ended"
    number: CohortNumber
    reason: str = Field(min_length=1, max_length=MAX_CAUSE)
    members: tuple[DeviceId, ...] = Field(max_length=MOST_MEMBERS)
    """Members that were not silent."""
    opened: bool = Field(default=False, exclude_if=is_absent)
    """Whether they were asked for shares: what they gave is given in no other cohort then."""

    def say(self, at: EntryContext) -> str:
        lost = " What its members gave is lost." if self.opened else ""
        return f"Nothing comes of cohort {self.number}: {self.reason}.{lost}"


def _end(cohorts: state.CohortsState, body: CohortEnded, at: EntryContext) -> None:
    cohort = cohorts.by_number[body.number]
    unaware = frozenset(cohort.present) - cohort.shares.keys() if cohort.opened else frozenset()
    _over(cohorts, cohort, at.index, unaware)
    cohort.step, cohort.why = "ended", body.reason


def _over(
    cohorts: state.CohortsState,
    cohort: state.CohortProgress,
    index: int,
    unaware: frozenset[DeviceId] = frozenset(),
) -> None:
    """Ask no more of the members but those `unaware`, who do not know yet that it was opened."""
    cohort.seeds, cohort.shares = {}, {}
    for device in cohort.body.devices:
        if cohorts.of_device.get(device) == cohort.body.number:
            cohorts.actions[device] = index
            if device not in unaware:
                del cohorts.of_device[device]


class CohortPruned(EntryBody):
    """What members gave behind masks is deleted, since the sum is known; the entries stay."""

    kind: ClassVar[str] = "cohort.pruned"
    number: CohortNumber
    digests: tuple[Digest, ...] = Field(max_length=MOST_MEMBERS)

    def say(self, at: EntryContext) -> str:
        return f"What members of cohort {self.number} gave behind masks is deleted."


def _leave(cohorts: state.CohortsState, body: DeviceRetired, _at: EntryContext) -> None:
    cohorts.joined.pop(body.device, None)


def _join_anew(
    cohorts: state.CohortsState,
    body: DeviceEnrolled | DeviceKeyRotated | DeviceKeyRevoked,
    _at: EntryContext,
) -> None:
    """Forget what a key signed that counts no more."""
    cohorts.joined.pop(body.device, None)


def _move_times(cohorts: state.CohortsState, body: ClockCorrected, _at: EntryContext) -> None:
    """Move the times that are compared with later ones."""
    for cohort in cohorts.by_number.values():
        cohort.began_ns -= body.by_ns
    cohorts.joined = {
        device: state.Joined(one.index, one.joined_ns - body.by_ns, one.joining, one.signature)
        for device, one in cohorts.joined.items()
    }


def _tell_members(body: CohortFormed) -> Notification:
    return Notification("assignment", body.cohort.devices)


COHORTS: LedgerTopic[state.CohortsState] = LedgerTopic(
    "cohorts",
    kinds=(
        Kind(CohortJoined, _join, worth=logging.DEBUG),
        Kind(CohortFormed, _form, _tell_members),
        Kind(
            CohortSilent,
            _fall_silent,
            lambda body: Notification("assignment", (*body.present, *body.silent)),
        ),
        Kind(CohortOpening, _open, lambda body: Notification("assignment", body.present)),
        Kind(CohortRevealed, _reveal, worth=logging.DEBUG),
        Kind(CohortSummed, _sum, lambda body: Notification("assignment", body.members)),
        Kind(
            CohortEnded,
            _end,
            lambda body: Notification("assignment", body.members),
            worth=logging.WARNING,
            trouble=True,
        ),
        Kind(CohortPruned, changes_nothing, worth=logging.DEBUG),
    ),
    follows=(
        Follows(DeviceRetired, _leave),
        Follows(DeviceEnrolled, _join_anew),
        Follows(DeviceKeyRotated, _join_anew),
        Follows(DeviceKeyRevoked, _join_anew),
        Follows(ClockCorrected, _move_times),
    ),
)
