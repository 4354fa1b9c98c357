"""What the state knows of masked cohorts, and of devices that wait to be in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fleetledger.schemas.cohorts import CohortNumber, Hex32, Joining, MaskedCohort
from fleetledger.schemas.keys import SignatureText
from fleetledger.schemas.values import BootId, DeviceId, Digest

Step = Literal["mask", "silent", "opening", "summed", "ended"]
OPEN: tuple[Step, ...] = ("mask", "silent", "opening")
"""Steps of cohorts that are neither summed nor ended."""
Purpose = tuple[int, int | None, Digest]
"""Stage, round and lineage that a device joined for."""


@dataclass(frozen=True)
class Joined:
    """A device that waits to be a member of a cohort."""

    index: int
    joined_ns: int
    joining: Joining
    signature: SignatureText | None = None

    @property
    def purpose(self) -> Purpose:
        """What it joined for."""
        return (self.joining.stage, self.joining.round, self.joining.lineage)


@dataclass(frozen=True)
class Word:
    """The newest word of a device that it waits: the entry, its number, and who said it."""

    index: int
    serial: int
    installation: BootId | None
    cohort: CohortNumber | None = None
    """The cohort that it made the device a member of."""


@dataclass
class CohortProgress:
    """A cohort as far as it came.

    Who has answered stands in the state of contributions, which follows these entries.
    """

    body: MaskedCohort
    index: int
    """Of the entry that formed it."""
    began_ns: int
    """When its present step began."""
    step: Step = "mask"
    silent: tuple[DeviceId, ...] = ()
    """Members whose words are not in the sum."""
    seeds: dict[DeviceId, dict[DeviceId, Hex32]] = field(default_factory=dict)
    """Seeds by who told them and the silent member that has each too; none once it is over."""
    shares: dict[DeviceId, dict[DeviceId, str]] = field(default_factory=dict)
    """Shares of own masks by who told them and whose mask it is; none once it is over."""
    reveals: dict[DeviceId, dict[int, int]] = field(default_factory=dict)
    """Entries of what each member told, by 1 for seeds and 2 for shares."""
    why: str = ""
    """Why it ended."""
    opened: bool = False
    """Whether its members were asked for shares."""
    summed_index: int | None = None

    @property
    def present(self) -> tuple[DeviceId, ...]:
        """Members that are not silent, in the order of the cohort."""
        return tuple(device for device in self.body.devices if device not in self.silent)

    @property
    def is_open(self) -> bool:
        """Whether it is neither summed nor ended."""
        return self.step in OPEN

    @property
    def undoes(self) -> tuple[CohortNumber, ...]:
        """Earlier cohorts of which present members take something out, in order."""
        found = {member.joining.undoes for member in self.body.members if self.has(member.device)}
        return tuple(sorted(number for number in found if number is not None))

    def has(self, device: DeviceId) -> bool:
        """Return whether a device is a member and not silent."""
        return device in self.body.devices and device not in self.silent

    def owes(self) -> list[DeviceId]:
        """Return the present members that have not told what the step asks for.

        At `mask` nobody is named: who has answered, the state of contributions knows.
        """
        wanted = {"silent": self.silent, "opening": self.present}.get(self.step, ())
        told: Mapping[DeviceId, Mapping[DeviceId, str]]
        told = self.shares if self.step == "opening" else self.seeds
        return [device for device in self.present if not told.get(device, {}).keys() >= set(wanted)]

    def opens(self) -> bool:
        """Return whether enough shares of each own mask are there."""
        told = self.shares.values()
        counts = (sum(of in shares for shares in told) for of in self.present)
        return self.step == "opening" and all(n >= self.body.threshold for n in counts)


@dataclass
class CohortsState:
    """Cohorts, and who waits for one."""

    joined: dict[DeviceId, Joined] = field(default_factory=dict)
    """In the order in which they joined."""
    by_number: dict[CohortNumber, CohortProgress] = field(default_factory=dict)
    of_device: dict[DeviceId, CohortNumber] = field(default_factory=dict)
    """The cohort of each device that is in one and not silent there, until it is over and, where
    it was opened, until the device has told its shares: only then does it know of that."""
    words: dict[DeviceId, Word] = field(default_factory=dict)
    actions: dict[DeviceId, int] = field(default_factory=dict)
    """The last entry that changed what a device is asked to do in a cohort."""

    @property
    def next_number(self) -> CohortNumber:
        """The number of the next cohort."""
        return max(self.by_number, default=0) + 1

    @property
    def open(self) -> list[CohortProgress]:
        """Cohorts that are neither summed nor ended, oldest first."""
        found = (self.by_number[number] for number in sorted({*self.of_device.values()}))
        return [one for one in found if one.is_open]

    def of(self, device: DeviceId) -> CohortProgress | None:
        """Return the cohort that a device is in and has not done with."""
        number = self.of_device.get(device)
        return None if number is None else self.by_number[number]

    def is_in_open(self, device: DeviceId) -> bool:
        """Return whether a device is in a cohort that is neither summed nor ended."""
        cohort = self.of(device)
        return cohort is not None and cohort.is_open

    def busy(self, stage: int, number: int | None = None) -> Iterator[CohortProgress]:
        """Yield the open cohorts of a stage, or of one of its rounds."""
        for one in self.open:
            if one.body.stage == stage and number in (None, one.body.round):
                yield one

    def waiting(self, stage: int, number: int | None = None) -> dict[DeviceId, Joined]:
        """Return who waits for a cohort of a stage, or of one of its rounds, the oldest first."""
        return {
            device: one
            for device, one in self.joined.items()
            if one.joining.stage == stage and number in (None, one.joining.round)
        }
