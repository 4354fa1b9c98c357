"""What devices give, withdraw or have nothing of, what is left out, and what is retracted."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import EntryBody, EntryContext
from fleetledger.coordinator.core.kind import TOLD, Follows, Kind, LedgerTopic, Notification
from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.cohorts.entries import CohortEnded, CohortSilent, CohortSummed
from fleetledger.coordinator.topics.contributions import state
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.contributions import Nothing, Part, PartKey, Withdrawal
from fleetledger.schemas.rounds import Observation, RoundAnswer
from fleetledger.schemas.values import BootId, DeviceId, Digest

MAX_REASON = 300
MAX_MOVED = 10_000
"""Contributions that one entry leaves out, or lets count again."""
MAX_TOLD = 500
"""Devices that one such entry names."""


class ContributionAccepted(EntryBody):
    """A device's part is in; an earlier revision of the same part is replaced."""

    kind: ClassVar[str] = "contribution.accepted"
    part: Part
    replaces: int | None = None
    """Ledger index of the entry that this one replaces."""
    late: bool = False
    """It came after its round was closed: it is recorded, and left out of that round."""
    installation: BootId | None = None
    """The installation of the device that gave it."""

    @property
    def came(self) -> str:
        """As what it came: held, or an answer to a round, in time or late."""
        if self.part.cohort is not None:
            return "masked"
        return "held" if self.part.round is None else "late" if self.late else "answer"

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The payload."""
        return (self.part.payload,)

    def say(self, at: EntryContext) -> str:
        part, samples = self.part, count_of(sum(self.part.samples.values()), "sample")
        if part.cohort is not None:
            return (
                f"Device {at.device} gave its words behind masks to cohort {part.cohort.number} "
                f"({count_of(part.payload_bytes, 'byte')})."
            )
        if part.round is not None:
            late = " It came late and is left out." if self.late else ""
            return (
                f"Device {at.device} answered round {part.round.number} with {part.payload_kind} "
                f"learned from {samples} ({part.payload_bytes} "
                f"bytes).{late}{_saw_before(part.round)}"
            )
        instead = f" It replaces entry {self.replaces}." if self.replaces is not None else ""
        return (
            f"Device {at.device} gave {part.payload_kind} of {samples} ({part.payload_bytes} "
            f"bytes) as part {part.key.part} of stage {part.key.stage}, revision "
            f"{part.revision}.{instead}"
        )


def counted_of(part: Part, device: DeviceId) -> state.CountedPart:
    """Return what the state keeps of a part."""
    samples = dict(part.samples)
    return state.CountedPart(
        device, part.key, part.payload, part.lineage, samples, part.payload_bytes
    )


def counted_sum(body: CohortSummed) -> state.CountedPart:
    """Return what the state keeps of a cohort's sum."""
    key, samples = PartKey(stage=body.stage, part=body.number), dict(body.samples)
    size, members = body.payload_bytes, len(body.members)
    return state.CountedPart(body.device, key, body.payload, body.lineage, samples, size, members)


def _accept(
    contributions: state.ContributionsState, body: ContributionAccepted, at: EntryContext
) -> None:
    if body.part.cohort is not None:
        _accept_masked(contributions, body, at)
        return
    part, item = body.part, counted_of(body.part, at.maker)
    if part.round is not None:  # an answer to a round is no part of the sum
        contributions.give(at.index, item, body.came)
        return
    given = contributions.by_device.setdefault(at.maker, state.DeviceContributions())
    if body.replaces is not None:
        contributions.end(body.replaces, at.index, "replaced")
        former = given.parts.get(part.key)
        if former is None or former.index != body.replaces:  # of an earlier installation
            for key, other in tuple(given.parts.items()):
                if other.index == body.replaces:
                    given.put(key, replace(other, payload=None))
    given.put(part.key, state.KnownPart(at.index, part.revision, part.payload, body.installation))
    contributions.give(at.index, item, body.came)
    contributions.spend(at.index, at.maker, part.lineage, masked=False)
    contributions.last_answer_ns[part.key.stage] = at.time_ns


def _accept_masked(
    contributions: state.ContributionsState, body: ContributionAccepted, at: EntryContext
) -> None:
    """Keep what a member of a cohort gave; it is in no sum."""
    part = body.part
    assert part.cohort is not None
    number, shares = part.cohort.number, dict(part.cohort.shares)
    given = contributions.by_device.setdefault(at.maker, state.DeviceContributions())
    former = given.parts.get(part.key) if part.round is None else None
    masked = state.MaskedPart(at.index, part.key, part.payload, part.payload_bytes, shares, former)
    contributions.mask(number, at.maker, masked)
    if part.round is None:
        known = state.KnownPart(
            at.index, part.revision, part.payload, body.installation, cohort=number
        )
        given.put(part.key, known)
        contributions.spend(at.index, at.maker, part.lineage, masked=True)
        contributions.last_answer_ns[part.key.stage] = at.time_ns


def _go_on_without(
    contributions: state.ContributionsState, body: CohortSilent, _at: EntryContext
) -> None:
    for device in body.silent:
        contributions.unmask(body.number, device, "unopened")


def _give_up(contributions: state.ContributionsState, body: CohortEnded, _at: EntryContext) -> None:
    for device in tuple(contributions.masked.get(body.number, {})):
        contributions.unmask(body.number, device, "lost" if body.opened else "unopened")
    contributions.masked.pop(body.number, None)


def _count_cohort(
    contributions: state.ContributionsState, body: CohortSummed, at: EntryContext
) -> None:
    """Count a cohort's sum as one part, or answer, of a device that is called as the cohort is."""
    for device in body.members:
        contributions.unmask(body.number, device, "summed")
    contributions.masked.pop(body.number, None)
    item = counted_sum(body)
    contributions.give(at.index, item, "held" if body.round is None else "answer")
    if body.round is None:
        given = contributions.by_device.setdefault(body.device, state.DeviceContributions())
        given.put(item.key, state.KnownPart(at.index, 0, body.payload))
        contributions.last_answer_ns[body.stage] = at.time_ns


class ContributionWithdrawn(EntryBody):
    """A device took a part out again."""

    kind: ClassVar[str] = "contribution.withdrawn"
    withdrawal: Withdrawal
    replaces: int | None = None

    def say(self, at: EntryContext) -> str:
        key, reason = self.withdrawal.key, self.withdrawal.reason
        return f"Device {at.device} took part {key.part} of stage {key.stage} out again: {reason}."


def _withdraw(
    contributions: state.ContributionsState, body: ContributionWithdrawn, at: EntryContext
) -> None:
    key, revision = body.withdrawal.key, body.withdrawal.revision
    if body.replaces is not None:
        contributions.end(body.replaces, at.index, "withdrawn")
    given = contributions.by_device.setdefault(at.maker, state.DeviceContributions())
    known = given.parts.get(key)
    owner = None if known is None else known.installation
    given.put(key, state.KnownPart(at.index, revision, None, owner))


class EarlierSettled(EntryBody):
    """The operator says what becomes of what earlier installations of a device gave."""

    kind: ClassVar[str] = "contributions.earlier_settled"
    device: DeviceId
    installation: BootId | None
    """The one that goes on; what it gave is its own."""
    kept: bool
    """Whether it stays beside what the present one gives, or leaves the sum."""

    def say(self, at: EntryContext) -> str:
        what = (
            "stays, and what its present one gives counts beside it"
            if self.kept
            else "left the sum"
        )
        return f"What earlier installations of device {self.device} gave {what}, by the operator."


def _settle_earlier(
    contributions: state.ContributionsState, body: EarlierSettled, at: EntryContext
) -> None:
    given = contributions.by_device[body.device]
    for key, part in given.earlier(body.installation).items():
        if not body.kept:
            contributions.end(part.index, at.index, "withdrawn")
            contributions.dropped[part.index] = at.index
        given.put(key, replace(part, kept=True) if body.kept else replace(part, payload=None))


class ContributionRetracted(EntryBody):
    """The operator took a device's part out of the sum, for good.

    Its bytes stay, so that the models which were solved with it can be made again.
    """

    kind: ClassVar[str] = "contribution.retracted"
    device: DeviceId
    key: PartKey
    revision: int
    payload: Digest
    reason: str = Field(min_length=1, max_length=MAX_REASON)
    replaces: int
    """Ledger index of the contribution that leaves the sum."""

    def say(self, at: EntryContext) -> str:
        return (
            f"The operator took part {self.key.part} of stage {self.key.stage} of device "
            f"{self.device} out of the sum, for good: {self.reason}. It was entry {self.replaces}; "
            f"the part, and its payload {self.payload.short} under any other number, are refused "
            "from here on."
        )


def _retract(
    contributions: state.ContributionsState, body: ContributionRetracted, at: EntryContext
) -> None:
    """Take a part out of the sum, as the operator asked, and remember that it was."""
    contributions.end(body.replaces, at.index, "retracted")
    given = contributions.by_device[body.device]
    given.put(body.key, state.KnownPart(at.index, body.revision, None))
    given.retracted[body.key] = state.Retracted(at.index, body.payload, body.reason)


class ContributionsLeftOut(EntryBody):
    """Contributions that leave the sum because a device gave too much, and that count again.

    It names what changes, and at most so much: what is left out all in all follows from all of
    these entries.
    """

    kind: ClassVar[str] = "contributions.left_out"
    left_out: tuple[int, ...] = Field(max_length=MAX_MOVED)
    """Ledger indices of those that are left out from here on."""
    again: tuple[int, ...] = Field(default=(), max_length=MAX_MOVED)
    """Ledger indices of those that count again."""
    devices: dict[DeviceId, str] = Field(max_length=MAX_TOLD)
    """Their devices, with a sentence on what is left out of each; empty where all of it counts."""

    def say(self, at: EntryContext) -> str:
        out, again = len(self.left_out), len(self.again)
        told = "; ".join(text for text in self.devices.values() if text)
        said = [f"{count_of(out, 'contribution')} left out of the sum for now"] if out else []
        said += [f"{count_of(again, 'contribution')} in the sum again"] if again else []
        changed = " and ".join(said) or "Nothing of these devices is left out of the sum"
        return f"{changed}: {told}." if told else f"{changed}."


def _leave_out(
    contributions: state.ContributionsState, body: ContributionsLeftOut, at: EntryContext
) -> None:
    for index in body.left_out:
        contributions.counted.leave_out(index, at.index)
    for index in body.again:
        contributions.counted.count_again(index, at.index)
    for device, text in body.devices.items():
        contributions.bounded.pop(device, None)
        if text:
            contributions.bounded[device] = at.index


class JudgedPart(Strict):
    """Parts of one device that were judged together, by entry, with figures of what they do.

    `learning.numerics.influence` defines the figures; -1 where none was needed.
    """

    device: DeviceId
    indices: tuple[int, ...] = Field(min_length=1, max_length=MAX_MOVED)
    residual: float
    """Mean squared residual under the model of the others."""
    pull: float
    """Move of the others' scores in units of the parts' share of samples."""
    move: float
    """Mean squared move of the others' scores."""
    harm: str = Field(default="", max_length=MAX_REASON)
    """What an inspection found instead."""

    @property
    def figures(self) -> str:
        """The figures in words."""
        return f"residual {self.residual:g}, pull {self.pull:g}, move {self.move:g}"


class PartBounds(Strict):
    """Largest figures with which parts count; infinite where they were not asked for."""

    residual: float
    pull: float
    move: float
    move_from_devices: int
    """Devices among the others from which on the last one holds."""


class ContributionsSetAside(EntryBody):
    """Contributions that do not count until the operator decides or a later model clears them.

    It names what changes. A `vector` v proves that the Gram matrix G of each part is that of no
    samples: v^T G v is below zero, in integers.
    """

    kind: ClassVar[str] = "contributions.set_aside"
    lineage: Digest
    ledger_size: int = Field(ge=0)
    """Number of entries after which the sum was as they were judged by it."""
    since: int = Field(ge=0)
    """Entry from which on parts were new then."""
    bounds: PartBounds
    """What held then."""
    set_aside: tuple[JudgedPart, ...] = Field(max_length=MAX_TOLD)
    again: tuple[JudgedPart, ...] = Field(default=(), max_length=MAX_TOLD)
    """Parts that a later model clears."""
    vector: Digest | None = None
    """Blob of v: int16, little-endian (M,)."""
    inspected: bool = False
    """Whether an inspection tells it: only the operator lets the parts count."""

    @property
    def blobs(self) -> tuple[Digest, ...]:
        """The vector, where there is one."""
        return () if self.vector is None else (self.vector,)

    def why(self, part: JudgedPart) -> str:
        """Return why a part does not count, with each figure beside its limit."""
        if self.vector is not None:
            return "no samples have this Gram matrix, which a vector proves"
        if self.inspected:
            return f"an inspection says of it: {part.harm}"
        return (
            f"the others' model would move too far (residual {part.residual:g}, at most "
            f"{self.bounds.residual:g}; pull {part.pull:g}, at most {self.bounds.pull:g}; move "
            f"{part.move:g}, at most {self.bounds.move:g} where {self.bounds.move_from_devices} "
            "others count)"
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """A sentence for each device of which something is set aside, with the way out."""
        return tuple(self._sentence(part) for part in self.set_aside)

    def _sentence(self, part: JudgedPart) -> str:
        parts = count_of(len(part.indices), "contribution")
        return (
            f"{parts} of device {part.device} set aside: {self.why(part)}; `fleetledger ledger "
            f"count-in {part.device}` lets it count, `fleetledger ledger retract {part.device} "
            "--reason TEXT` takes it out"
        )

    def say(self, at: EntryContext) -> str:
        again = (
            f"{count_of(len(part.indices), 'contribution')} of device {part.device} cleared by the "
            f"model of the others ({part.figures})"
            for part in self.again
        )
        return f"{'. '.join((*self.sentences, *again))}."


def _set_aside(
    contributions: state.ContributionsState, body: ContributionsSetAside, at: EntryContext
) -> None:
    for part in body.set_aside:
        for index in part.indices:
            contributions.counted.put_aside(index, at.index)
            if body.inspected:
                contributions.counted.asked.add(index)
    for part in body.again:
        for index in part.indices:
            contributions.counted.take_back(index, at.index)


class ContributionsCountedIn(EntryBody):
    """The operator lets contributions count that were set aside."""

    kind: ClassVar[str] = "contributions.counted_in"
    device: DeviceId
    indices: tuple[int, ...] = Field(min_length=1, max_length=MAX_MOVED)
    reason: str = Field(default="", max_length=MAX_REASON)

    def say(self, at: EntryContext) -> str:
        because = f": {self.reason}" if self.reason else ""
        return (
            f"The operator lets {count_of(len(self.indices), 'contribution')} of device "
            f"{self.device} count{because}."
        )


def _count_in(
    contributions: state.ContributionsState, body: ContributionsCountedIn, at: EntryContext
) -> None:
    for index in body.indices:
        contributions.counted.take_back(index, at.index)
        contributions.counted.let_in.add(index)


class NothingReported(EntryBody):
    """A device has no data for a stage or a round, or could not train in it."""

    kind: ClassVar[str] = "nothing.reported"
    nothing: Nothing

    def say(self, at: EntryContext) -> str:
        nothing, of_round = self.nothing, self.nothing.round is not None
        what = f"round {nothing.round}" if of_round else f"stage {nothing.stage}"
        if nothing.observation is not None:
            return (
                f"Device {at.device} trained on nothing in {what} and looked at its images with "
                f"the fleet's network: {_saw(nothing.observation)}."
            )
        if nothing.reason:
            did = "could not train in" if of_round else "gives nothing for"
            if of_round and nothing.reason.startswith("policy."):
                did = "declines"
            return f"Device {at.device} {did} {what}: {nothing.reason}."
        return f"Device {at.device} has nothing for {what}."


def _note_nothing(
    contributions: state.ContributionsState, body: NothingReported, at: EntryContext
) -> None:
    stage = body.nothing.stage
    if body.nothing.round is None:
        given = contributions.by_device.setdefault(at.maker, state.DeviceContributions())
        given.nothing[stage] = at.index
        contributions.last_answer_ns[stage] = at.time_ns


def _saw_before(answer: RoundAnswer) -> str:
    if answer.observation is None:
        return ""
    return f" Before it trained it looked at its images: {_saw(answer.observation)}."


def _saw(seen: Observation) -> str:
    task = "takes them for a new task" if seen.transition else "sees no new task"
    return f"mean entropy {seen.entropy:.3f} nats over {count_of(seen.images, 'image')}, and {task}"


def _move_times(
    contributions: state.ContributionsState, body: ClockCorrected, _at: EntryContext
) -> None:
    """Move the times that are compared with later ones."""
    for stage in contributions.last_answer_ns:
        contributions.last_answer_ns[stage] -= body.by_ns


CONTRIBUTIONS = LedgerTopic(
    "contributions",
    kinds=(
        Kind(ContributionAccepted, _accept),
        Kind(ContributionWithdrawn, _withdraw),
        Kind(EarlierSettled, _settle_earlier),
        Kind(
            ContributionRetracted,
            _retract,
            lambda body: Notification("retraction", (body.device,)),
        ),
        Kind(
            ContributionsLeftOut,
            _leave_out,
            worth=TOLD,
            trouble="json_array_length(body, '$.left_out') > 0",
        ),
        Kind(
            ContributionsSetAside,
            _set_aside,
            worth=TOLD,
            trouble="json_array_length(body, '$.set_aside') > 0",
        ),
        Kind(ContributionsCountedIn, _count_in),
        Kind(NothingReported, _note_nothing),
    ),
    follows=(
        Follows(CohortSilent, _go_on_without),
        Follows(CohortSummed, _count_cohort),
        Follows(CohortEnded, _give_up),
        Follows(ClockCorrected, _move_times),
    ),
)
