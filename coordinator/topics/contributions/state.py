"""What the state knows of what devices gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple, TypeVar

from fleetledger.coordinator.topics.classes.state import ClassRegistry
from fleetledger.coordinator.topics.lineages.state import LineagesState
from fleetledger.learning.privacy.accounting import Spending
from fleetledger.schemas.cohorts import CohortNumber, Sealed
from fleetledger.schemas.contributions import NOTHING_HELD, HeldPart, PartKey, held_digest
from fleetledger.schemas.privacy import Noise
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest


@dataclass
class KnownPart:
    """The newest revision of one part of a device: held, or withdrawn."""

    index: int
    revision: int
    payload: Digest | None
    """None when the part was withdrawn."""
    installation: BootId | None = None
    """The installation of the device that gave it."""
    kept: bool = False
    """Whether the operator lets it stay, whatever the present installation says."""
    cohort: CohortNumber | None = None
    """The cohort in whose sum it is, or will be: it cannot leave that alone."""

    @property
    def held(self) -> bool:
        """Whether the part is in the sum."""
        return self.payload is not None


@dataclass(frozen=True)
class Retracted:
    """A part that the operator took out of the sum: by entry and payload, and why."""

    index: int
    payload: Digest
    reason: str


@dataclass(frozen=True)
class MaskedPart:
    """What a member of a cohort gave behind masks."""

    index: int
    key: PartKey
    payload: Digest
    payload_bytes: int
    shares: dict[DeviceId, Sealed]
    """Its own mask in shares, sealed for each other member."""
    former: KnownPart | None = None
    """The revision of the part before it, which is in the sum of another cohort."""


@dataclass
class CountedPart:
    """A contribution that is in the sum."""

    device: DeviceId
    key: PartKey
    payload: Digest
    lineage: Digest
    samples: dict[ClassName, int]
    payload_bytes: int
    members: int = 1
    """Devices whose samples are in it; more of a cohort's sum."""


@dataclass(frozen=True)
class GivenAmount:
    """Contributions, or those of them that have a class, summed."""

    count: int = 0
    samples: int = 0
    payload_bytes: int = 0

    def __add__(self, other: GivenAmount) -> GivenAmount:
        return GivenAmount(
            self.count + other.count,
            self.samples + other.samples,
            self.payload_bytes + other.payload_bytes,
        )


@dataclass
class GivenSums:
    """What was given, summed by what became of it: held, answer, late, replaced, ..."""

    by_end: dict[str, GivenAmount] = field(default_factory=dict)
    newest: int = -1
    """Entry of the newest contribution."""

    @property
    def counts(self) -> GivenAmount:
        """Parts in the sum, and answers to rounds."""
        return sum(map(self.of, COUNTS), GivenAmount())

    def of(self, end: str) -> GivenAmount:
        """Return what had one end."""
        return self.by_end.get(end, GivenAmount())


COUNTS = ("held", "answer")
"""Ends of contributions that count: parts in the sum, and answers to rounds."""


@dataclass
class StageGiven:
    """What was given for one stage, answers to its rounds among it."""

    sums: GivenSums = field(default_factory=GivenSums)
    devices: dict[DeviceId, GivenSums] = field(default_factory=dict)
    """Of each device that gave something, whatever became of it."""
    classes: dict[ClassName, GivenAmount] = field(default_factory=dict)
    """Of what counts, by the names that devices used."""
    late: set[ClassName] = field(default_factory=set)
    """Names in answers that came late."""

    def move(self, item: CountedPart, end: str, by: int) -> None:
        """Take a contribution in (`by` is 1) or out (-1)."""
        samples = by * sum(item.samples.values())
        for sums in (self.sums, self.devices.setdefault(item.device, GivenSums())):
            _add(sums.by_end, end, by, samples, by * item.payload_bytes)
        if end == "late":
            self.late.update(item.samples)
        if end in COUNTS:
            for name, samples in item.samples.items():
                _add(self.classes, name, by, by * samples)


_Of = TypeVar("_Of", bound=str)


def _add(
    sums: dict[_Of, GivenAmount], key: _Of, count: int, samples: int, payload_bytes: int = 0
) -> None:
    before = sums.get(key)
    if before is not None:
        count += before.count
        samples += before.samples
        payload_bytes += before.payload_bytes
    if count:
        sums[key] = GivenAmount(count, samples, payload_bytes)
    else:
        sums.pop(key, None)


@dataclass
class LineageSum:
    """Facts about one lineage's sum, kept so that no step goes through its parts."""

    parts: int = 0
    """Number of contributions in the sum, without those that are left out."""
    names: dict[ClassName, int] = field(default_factory=dict)
    """Number of these that have samples of a name."""
    samples: dict[DeviceId, int] = field(default_factory=dict)
    """Number of samples in the sum by device, of devices that have any."""
    changed: int = -1
    """Index of the last entry that changed the sum; -1 before there was one."""

    def move(self, item: CountedPart, by: int, at: int) -> None:
        """Take a contribution in (`by` is 1) or out (-1), by the entry `at`."""
        self.parts, self.changed = self.parts + by, at
        given = self.samples.get(item.device, 0) + by * sum(item.samples.values())
        self.samples[item.device] = given
        if not given:
            del self.samples[item.device]
        for name in item.samples:
            self.names[name] = self.names.get(name, 0) + by
            if not self.names[name]:
                del self.names[name]


@dataclass(eq=False)
class CountedParts(Mapping[int, CountedPart]):
    """Contributions that are held, by entry, with what each device gave and what the sums are of.

    Every change costs what one contribution costs, however many there are.
    """

    by_index: dict[int, CountedPart] = field(default_factory=dict)
    given: dict[tuple[DeviceId, Digest, int], dict[ClassName, int]] = field(default_factory=dict)
    """Samples by device, lineage and stage."""
    of_stage: dict[tuple[DeviceId, Digest, int], set[int]] = field(default_factory=dict)
    """Entries by device, lineage and stage."""
    copies: dict[tuple[DeviceId, Digest], set[int]] = field(default_factory=dict)
    """Entries of a device that have one payload, where it has several."""
    payloads: dict[tuple[DeviceId, Digest], int] = field(default_factory=dict)
    """An entry of each payload of a device."""
    left_out: dict[int, DeviceId] = field(default_factory=dict)
    """Entries that are held and left out of the sum, with their devices."""
    set_aside: dict[int, int] = field(default_factory=dict)
    """Entries that are held and wait for the operator, by the entry that set each aside."""
    returned: dict[int, int] = field(default_factory=dict)
    """Entries that were left out and count again, by the entry that let them."""
    asked: set[int] = field(default_factory=set)
    """Those of them that an inspection set aside: no later model lets them count."""
    let_in: set[int] = field(default_factory=set)
    """Entries that the operator has let count, whatever their figures are."""
    sums: dict[Digest, LineageSum] = field(default_factory=dict)
    """Sums by lineage."""

    def __getitem__(self, index: int) -> CountedPart:
        return self.by_index[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.by_index)

    def __len__(self) -> int:
        return len(self.by_index)

    def put(self, index: int, item: CountedPart) -> None:
        """Let a contribution be in the sum."""
        self.by_index[index] = item
        place = (item.device, item.lineage, item.key.stage)
        self.of_stage.setdefault(place, set()).add(index)
        given = self.given.setdefault(place, {})
        for name, samples in item.samples.items():
            given[name] = given.get(name, 0) + samples
        self._note_payload(index, (item.device, item.payload))
        self.sums.setdefault(item.lineage, LineageSum()).move(item, 1, index)

    def take_out(self, index: int, at: int) -> None:
        """Let a contribution be held no more, if it is, by the entry `at`."""
        item = self.by_index.get(index)
        if item is None:
            return
        self.leave_out(index, at)
        self.set_aside.pop(index, None)
        self.let_in.discard(index)
        self.asked.discard(index)
        self.returned.pop(index, None)
        del self.by_index[index], self.left_out[index]
        place = (item.device, item.lineage, item.key.stage)
        self.of_stage[place].discard(index)
        given = self.given[place]
        for name, samples in item.samples.items():
            given[name] -= samples
        self._forget_payload(index, (item.device, item.payload))

    def leave_out(self, index: int, at: int) -> None:
        """Leave a contribution that is held out of the sum, by the entry `at`."""
        item = self.by_index.get(index)
        if item is not None and index not in self.left_out:
            self._move(index, item, -1, at)
            self.left_out[index] = item.device

    def count_again(self, index: int, at: int) -> None:
        """Let a contribution that was left out be in the sum again, by the entry `at`."""
        if self.left_out.pop(index, None) is not None:
            self._move(index, self.by_index[index], 1, at)
            self.returned[index] = at

    def put_aside(self, index: int, at: int) -> None:
        """Let a contribution that is held wait for the operator, by the entry `at`."""
        item = self.by_index.get(index)
        if item is not None and index not in self.set_aside:
            self._move(index, item, -1, at)
            self.set_aside[index] = at

    def take_back(self, index: int, at: int) -> None:
        """Let a contribution that was set aside count, by the entry `at`."""
        if self.set_aside.pop(index, None) is not None:
            self.asked.discard(index)
            self._move(index, self.by_index[index], 1, at)

    def _move(self, index: int, item: CountedPart, by: int, at: int) -> None:
        if self.is_counted(index):
            self.sums[item.lineage].move(item, by, at)

    def since(self, start: int) -> Iterator[int]:
        """Yield the entries of contributions that came, or came back, from an entry on."""
        # Entries are put in their order, so that the newest are the last.
        yield from takewhile(lambda index: index >= start, reversed(self.by_index))
        yield from (i for i, at in self.returned.items() if i < start <= at)

    def of_device(self, device: DeviceId, lineage: Digest) -> Iterator[int]:
        """Yield the entries of what is held of a device in a lineage."""
        for (who, of, _), indices in self.of_stage.items():
            if (who, of) == (device, lineage):
                yield from indices

    def is_summed(self, index: int, lineage: Digest) -> bool:
        """Return whether a contribution is in a lineage's sum."""
        item = self.by_index.get(index)
        return item is not None and item.lineage == lineage and self.is_counted(index)

    def is_counted(self, index: int) -> bool:
        """Return whether nothing keeps a contribution that is held out of the sum."""
        return index not in self.left_out and index not in self.set_aside

    def sum_of(self, lineage: Digest) -> LineageSum:
        """Return what is known of a lineage's sum, to read."""
        return self.sums.get(lineage) or LineageSum()

    def _note_payload(self, index: int, payload: tuple[DeviceId, Digest]) -> None:
        first = self.payloads.setdefault(payload, index)
        if first != index:
            self.copies.setdefault(payload, {first}).add(index)

    def _forget_payload(self, index: int, payload: tuple[DeviceId, Digest]) -> None:
        others = self.copies.pop(payload, {index}) - {index}
        if not others:
            self.payloads.pop(payload, None)
            return
        self.payloads[payload] = min(others)
        if len(others) > 1:
            self.copies[payload] = others

    def samples(self, device: DeviceId, lineage: Digest, stage: int) -> Mapping[ClassName, int]:
        """Return what a device gave in a stage, by the names it used."""
        return self.given.get((device, lineage, stage), {})


@dataclass
class DeviceContributions:
    """What one device gave for stages of statistics."""

    parts: dict[PartKey, KnownPart] = field(default_factory=dict)
    nothing: dict[int, int] = field(default_factory=dict)
    """Stage to the index of the entry that says the device has nothing for it."""
    retracted: dict[PartKey, Retracted] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    """Stage to the number of parts that are held."""
    own: dict[str, Digest] = field(default_factory=dict)
    """`held_digest` of held parts by the installation that gave them, "" where none is named;
    without those that the operator lets stay."""
    next_part: int = 0
    """A part number above all that the device used."""

    def put(self, key: PartKey, part: KnownPart) -> None:
        """Take in the newest revision of a part."""
        former = self.parts.get(key)
        by = part.held - (former is not None and former.held)
        self.parts[key] = part
        self.held[key.stage] = self.held.get(key.stage, 0) + by
        self.next_part = max(self.next_part, key.part + 1)
        if former is not None:
            self._note_own(former, (), _held(key, former))
        self._note_own(part, _held(key, part), ())

    def _note_own(self, part: KnownPart, came: tuple[_Held, ...], gone: tuple[_Held, ...]) -> None:
        if not part.kept:
            owner = str(part.installation or "")
            digest = self.own.get(owner, NOTHING_HELD)
            self.own[owner] = held_digest(came, gone, of=digest)

    def own_digest(self, installation: BootId | None) -> Digest:
        """Return `held_digest` of `own_parts`."""
        owners = self.own if installation is None else {"", str(installation)}
        found = sum(int(self.own[owner], 16) for owner in owners if owner in self.own)
        return Digest(f"{found % 2**256:064x}")

    def answered(self, stage: int) -> bool:
        """Return whether the device contributed to the stage or said that it has nothing."""
        return stage in self.nothing or self.held.get(stage, 0) > 0

    def earlier(self, installation: BootId | None) -> dict[PartKey, KnownPart]:
        """Return the held parts of other installations that nobody has decided about."""
        others = self.own.keys() - {"", str(installation)}
        if all(self.own[owner] == NOTHING_HELD for owner in others):
            return {}  # as it is of nearly all devices, without a look at their parts
        return {
            key: part
            for key, part in self.parts.items()
            if part.held
            and not part.kept
            and None not in (part.installation, installation)
            and part.installation != installation
        }

    def own_parts(self, installation: BootId | None) -> list[HeldPart]:
        """Return the held parts that this installation gave, in the order of their keys."""
        return [
            held
            for held in self.held_parts()
            if not self.parts[held.key].kept
            and (installation is None or self.parts[held.key].installation in (None, installation))
        ]

    def held_parts(self) -> list[HeldPart]:
        """Parts in the sum, in the order of their keys."""
        in_order = sorted(self.parts.items(), key=lambda item: (item[0].stage, item[0].part))
        return [
            HeldPart(key=key, revision=part.revision, payload=part.payload)
            for key, part in in_order
            if part.payload is not None
        ]


class _Held(NamedTuple):
    """A part as it is held, of values that were checked."""

    key: PartKey
    revision: int
    payload: Digest


def _held(key: PartKey, part: KnownPart) -> tuple[_Held, ...]:
    """Return a part as it is held; nothing where it was withdrawn."""
    return () if part.payload is None else (_Held(key, part.revision, part.payload),)


@dataclass
class NoisyParts:
    """What parts with noise of one device and lineage have spent, as sums of 1/z^2 of parts.

    z is the noise multiplier of a part. An image is in one part at a time, so it has spent at most
    the heaviest chain of parts of which each was given after the one before it had left.
    """

    closed: float = 0.0
    """The heaviest chain of parts that have left."""
    image: float = 0.0
    """The heaviest chain of all: what any image may have spent."""
    device: float = 0.0
    """All parts: what the device has spent."""
    given: dict[int, float] = field(default_factory=dict)
    """The heaviest chain that ends with a part that is held, by entry."""

    def give(self, index: int, spent: float) -> None:
        """Take in a part that was given by the entry `index`."""
        self.given[index] = self.closed + spent
        self.image = max(self.image, self.given[index])
        self.device += spent

    def end(self, index: int) -> None:
        """Let a part leave; nothing of the budget comes back."""
        self.closed = max(self.closed, self.given.pop(index, 0.0))


@dataclass
class ContributionsState:
    """What devices gave, and what counts of it."""

    lineages: LineagesState = field(repr=False, compare=False)
    """Parts before this one, to read from."""
    classes: ClassRegistry = field(repr=False, compare=False)
    by_device: dict[DeviceId, DeviceContributions] = field(default_factory=dict)
    """Of devices that ever gave something, in the order in which they first did."""
    counted: CountedParts = field(default_factory=CountedParts)
    """Contributions in the sum, by ledger index."""
    bounded: dict[DeviceId, int] = field(default_factory=dict)
    """Devices of which something is said to be left out, by the entry that says it."""
    last_answer_ns: dict[int, int] = field(default_factory=dict)
    """When a device last gave something for a stage, or said that it has nothing."""
    given: dict[int, StageGiven] = field(default_factory=dict)
    """What was ever given, by stage, in sums."""
    noisy: dict[DeviceId, dict[Digest, NoisyParts]] = field(default_factory=dict)
    """What parts with noise have spent, by device and lineage."""
    dropped: dict[int, int] = field(default_factory=dict)
    """Contributions of earlier installations that the operator took out, by the entry that did."""
    masked: dict[CohortNumber, dict[DeviceId, MaskedPart]] = field(default_factory=dict)
    """What members gave behind masks, until their cohort is summed, or ended."""

    def given_in(self, stage: int) -> StageGiven:
        """Return what was given for a stage, to read."""
        return self.given.get(stage) or StageGiven()

    def give(self, index: int, item: CountedPart, end: str) -> None:
        """Take in a new contribution: held, or an answer to a round, in time or late."""
        stage = self.given.setdefault(item.key.stage, StageGiven())
        stage.move(item, end, 1)
        stage.sums.newest = stage.devices[item.device].newest = index
        if end == "held":
            self.counted.put(index, item)

    def spend(self, index: int, device: DeviceId, lineage: Digest, *, masked: bool) -> None:
        """Note that a part with noise was given, where the lineage has any.

        What is given behind masks counts as if it had left at once, since a later one can have the
        same images, and nobody is told.
        """
        noise = self.lineages.noise
        if noise is None:
            return
        spent = self.noisy.setdefault(device, {}).setdefault(lineage, NoisyParts())
        spent.give(index, noise.multiplier**-2)
        if masked:
            spent.end(index)

    def mask(self, number: CohortNumber, device: DeviceId, part: MaskedPart) -> None:
        """Take in what a member of a cohort gave behind masks."""
        self.masked.setdefault(number, {})[device] = part
        self._move_masked(device, part, "masked", 1)

    def unmask(self, number: CohortNumber, device: DeviceId, end: str) -> None:
        """Let what a member gave behind masks be `summed`, `unopened` or `lost`, if it gave any."""
        part = self.masked.get(number, {}).pop(device, None)
        if part is None:
            return
        self._move_masked(device, part, "masked", -1)
        self._move_masked(device, part, end, 1)
        given = self.by_device.get(device)
        known = None if given is None else given.parts.get(part.key)
        if end == "unopened" and given is not None and known and known.index == part.index:
            # The same revision may come again, in another cohort.
            before = part.former or KnownPart(part.index, known.revision - 1, None)
            given.put(part.key, before)

    def _move_masked(self, device: DeviceId, part: MaskedPart, end: str, by: int) -> None:
        item = CountedPart(device, part.key, part.payload, NOTHING_HELD, {}, part.payload_bytes)
        self.given.setdefault(part.key.stage, StageGiven()).move(item, end, by)

    def end(self, index: int, at: int, end: str) -> None:
        """Let a contribution be held no more, if it is, by the entry `at`: replaced, ..."""
        item = self.counted.get(index)
        if item is not None:
            self.counted.take_out(index, at)
            if (spent := self.noisy.get(item.device, {}).get(item.lineage)) is not None:
                spent.end(index)
            self.given[item.key.stage].move(item, "held", -1)
            self.given[item.key.stage].move(item, end, 1)

    def spendings(
        self, device: DeviceId, noise: Noise, part: PartKey | None = None
    ) -> tuple[Spending, ...]:
        """Return what a device's parts have spent, of an image's or of the device's budget.

        With `part`, as if it had been given now with this noise, in place of its former revision.
        """
        lineage = self.lineages.current
        found = dict(self.noisy.get(device, {}))
        if part is not None and lineage is not None:
            after = deepcopy(found.get(lineage.digest, NoisyParts()))
            held = self.of(device).parts.get(part)
            if held is not None:
                after.end(held.index)
            after.give(-1, noise.multiplier**-2)
            found[lineage.digest] = after
        spent = sum(getattr(one, noise.protects) for one in found.values())
        return (Spending(spent**-0.5),) if spent else ()

    def of(self, device: DeviceId) -> DeviceContributions:
        """Return what a device gave, to read."""
        return self.by_device.get(device) or DeviceContributions()

    def held(self) -> dict[DeviceId, tuple[int, int]]:
        """Return how many contributions are held of each device, and of how many samples."""
        parts, samples = Counter[DeviceId](), Counter[DeviceId]()
        for (device, _, _), indices in self.counted.of_stage.items():
            parts[device] += len(indices)
        for (device, _, _), given in self.counted.given.items():
            samples[device] += sum(given.values())
        return {device: (count, samples[device]) for device, count in parts.items()}

    @property
    def sum(self) -> LineageSum:
        """Facts about the sum of the current lineage, to read."""
        lineage = self.lineages.current
        return LineageSum() if lineage is None else self.counted.sum_of(lineage.digest)

    def unchanged_since(self, ledger_size: int) -> bool:
        """Return whether the current lineage's sum is what it was after so many entries."""
        return self.sum.changed < ledger_size

    def inputs(self) -> tuple[int, ...]:
        """Ledger indices of the contributions of the current lineage that are in the sum.

        This goes through all that is held: for those who check, not for a step.
        """
        lineage, counted = self.lineages.current, self.counted
        if lineage is None:
            return ()
        return tuple(sorted(i for i in counted if counted.is_summed(i, lineage.digest)))

    def learned_names(self) -> tuple[ClassName, ...]:
        """Return the classes with images in the sum, in the order of their indices: a head's rows.

        A class that was named but has no images yet has no row: its scores would be zero, which
        can be the largest.
        """
        learned = set(map(self.classes.resolve, self.sum.names))
        return tuple(name for name in self.classes.names if name in learned)
