"""What the state knows of what devices gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from coordinator.topics.classes.state import ClassRegistry
from coordinator.topics.lineages.state import LineagesState
from schemas.contributions import HeldPart, PartKey
from schemas.values import ClassName, DeviceId, Digest


@dataclass
class AcceptedShard:
    """The newest revision of one part of a device: held, or withdrawn."""

    index: int
    revision: int
    payload: Digest | None
    """None when the part was withdrawn."""

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


@dataclass
class CountedContribution:
    """A contribution that is in the sum."""

    device: DeviceId
    key: PartKey
    payload: Digest
    lineage: Digest
    samples: dict[ClassName, int]


@dataclass(eq=False)
class CountedParts(Mapping[int, CountedContribution]):
    """Contributions that are in the sum, by entry, with the samples that each device gave."""

    by_index: dict[int, CountedContribution] = field(default_factory=dict)
    given: dict[tuple[DeviceId, Digest, int], dict[ClassName, int]] = field(default_factory=dict)
    """Samples by device, lineage and stage."""

    def __getitem__(self, index: int) -> CountedContribution:
        return self.by_index[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.by_index)

    def __len__(self) -> int:
        return len(self.by_index)

    def put(self, index: int, item: CountedContribution) -> None:
        """Let a contribution be in the sum."""
        self.by_index[index] = item
        given = self.given.setdefault((item.device, item.lineage, item.key.stage), {})
        for name, samples in item.samples.items():
            given[name] = given.get(name, 0) + samples

    def take_out(self, index: int) -> None:
        """Let a contribution be in the sum no more, if it is."""
        item = self.by_index.pop(index, None)
        if item is not None:
            given = self.given[item.device, item.lineage, item.key.stage]
            for name, samples in item.samples.items():
                given[name] -= samples

    def samples(self, device: DeviceId, lineage: Digest, stage: int) -> Mapping[ClassName, int]:
        """Return what a device gave in a stage, by the names it used."""
        return self.given.get((device, lineage, stage), {})


@dataclass
class DeviceContributions:
    """What one device gave for stages of statistics."""

    parts: dict[PartKey, AcceptedShard] = field(default_factory=dict)
    nothing: dict[int, int] = field(default_factory=dict)
    """Stage to the index of the entry that says the device has nothing for it."""
    retracted: dict[PartKey, Retracted] = field(default_factory=dict)

    def answered(self, stage: int) -> bool:
        """Whether the device contributed to the stage or said that it has nothing."""
        return stage in self.nothing or any(
            key.stage == stage and part.held for key, part in self.parts.items()
        )

    def held_parts(self) -> list[HeldPart]:
        """Parts in the sum, in the order of their keys."""
        return [
            HeldPart(key=key, revision=part.revision, payload=part.payload)
            for key, part in sorted(
                self.parts.items(), key=lambda item: (item[0].stage, item[0].part)
            )
            if part.payload is not None
        ]


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
    left_out: frozenset[int] = frozenset()
    """Of these, those of devices that gave more than their share, for now."""
    last_answer_ns: dict[int, int] = field(default_factory=dict)
    """When a device last gave something for a stage, or said that it has nothing."""

    def of(self, device: DeviceId) -> DeviceContributions:
        """Return what a device gave, to read."""
        return self.by_device.get(device) or DeviceContributions()

    def given(self) -> dict[int, CountedContribution]:
        """Return the contributions of the current lineage, also those that are left out."""
        lineage = self.lineages.current
        if lineage is None:
            return {}
        digest = lineage.digest
        counted = self.counted.by_index
        return {i: item for i, item in counted.items() if item.lineage == digest}

    def inputs(self) -> tuple[int, ...]:
        """Ledger indices of the contributions of the current lineage that are in the sum."""
        return tuple(sorted(i for i in self.given() if i not in self.left_out))

    def learned_names(self) -> tuple[ClassName, ...]:
        """Return the classes with images in the sum, in the order of their indices: a head's rows.

        A class that was named but has no images yet has no row: its scores would be zero, which
        can be the largest.
        """
        learned = {
            self.classes.resolve(name)
            for index in self.inputs()
            for name in self.counted[index].samples
        }
        return tuple(name for name in self.classes.names if name in learned)
