"""What the state is made of: devices and their parts, stages, contributions, models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from coordinator.core import entries
from coordinator.core.key_records import DeviceKeys
from schemas.contributions import HeldPart, PartKey
from schemas.offers import Offer
from schemas.presence import Capabilities
from schemas.values import BootId, ClassName, DeviceId, Digest

OLD_MODEL = "old-model"
"""The extra file of an order with the best model of the task before the present one."""
NEW_MODEL = "new-model"
"""With the best model of the present task so far."""


@dataclass
class Part:
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


@dataclass(frozen=True)
class Answered:
    """What a device answered to a round: by entry and payload; None for 'nothing'."""

    index: int
    payload: Digest | None


@dataclass(frozen=True)
class Reported:
    """A transition that is in the ledger, by entry and content."""

    index: int
    content: Digest


@dataclass(frozen=True)
class Losses:
    """What one device measured on its held-out images."""

    images: int
    losses: tuple[int, ...]


@dataclass(frozen=True)
class Doubled:
    """Two installations under one name, each by a run of it and by what it calls itself."""

    runs: tuple[BootId, BootId]
    installations: tuple[BootId, BootId]


@dataclass
class Device:
    """An admitted device and what it has done."""

    admitted_index: int
    keys: DeviceKeys = field(default_factory=DeviceKeys)
    boot: BootId | None = None
    silent: bool = False
    """Whether nothing came of it for long that could be believed."""
    installation: BootId | None = None
    capabilities: Capabilities | None = None
    parts: dict[PartKey, Part] = field(default_factory=dict)
    nothing: dict[int, int] = field(default_factory=dict)
    """Stage to the index of the entry that says the device has nothing for it."""
    answers: dict[int, Answered] = field(default_factory=dict)
    """By number of the round."""
    retracted: dict[PartKey, Retracted] = field(default_factory=dict)
    averaged: dict[int, int] = field(default_factory=dict)
    """Rounds whose mean has an answer of this device in it, with the entry of the mean."""
    order_action: int = 0
    """Index of the last entry that changed what this device alone is asked to do."""
    active_version: int | None = None
    model_state: str = ""
    model_reason: str = ""
    model_versions_seen: dict[int, str] = field(default_factory=dict)
    """Version to the last state reported for it."""
    evaluated_version: int | None = None
    transitions: dict[PartKey, Reported] = field(default_factory=dict)
    """By stage and number."""
    named: dict[ClassName, int] = field(default_factory=dict)
    """Class names that the device reported as new, with their number of images."""
    doubled: Doubled | None = None
    """The installations between which the operator has to choose."""
    settled: dict[BootId, bool] = field(default_factory=dict)
    """Runs between which the operator chose, and whether their installation goes on."""
    shut_out: set[BootId] = field(default_factory=set)
    """Names of installations that do not, where the one that does has another."""
    doubts: int | None = None
    """Index of the last report of unsure images since the newest stage was opened."""

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

    @property
    def next_part(self) -> int:
        """A part number above all that this device ever used, answers to rounds among them."""
        return max((*(key.part for key in self.parts), *self.answers), default=-1) + 1


@dataclass
class Stage:
    """Classes learned together."""

    opened_index: int
    opened_ns: int
    """When it was opened, or when statistics began in it, where a network was frozen first."""
    class_names: tuple[ClassName, ...]
    closed_index: int | None = None
    last_answer_ns: int | None = None


@dataclass
class Round:
    """A cohort's training: open until it is closed, done when it is averaged or came to nothing."""

    opened: entries.RoundOpened
    opened_index: int
    opened_ns: int
    weights: Weights | None = None
    """The fleet's network as it was when the round was opened."""
    answers: dict[DeviceId, RoundAnswered] = field(default_factory=dict)
    """In time; in the order of the ledger."""
    nothing: set[DeviceId] = field(default_factory=set)
    """Devices without data."""
    unable: dict[DeviceId, str] = field(default_factory=dict)
    """Devices that could not train, or declined, with what they said."""
    looked: set[DeviceId] = field(default_factory=set)
    """Observers that have answered; they decide nothing."""
    closed: entries.RoundClosed | None = None
    ended_ns: int | None = None
    """When it was closed, or failed."""
    ended_index: int | None = None
    """Of the entry that says so."""
    averaged: bool = False
    failed: str | None = None
    """Why its answers could not be averaged."""

    @cached_property
    def cohort(self) -> frozenset[DeviceId]:
        """Devices that are asked to train."""
        return frozenset(self.opened.cohort)

    @cached_property
    def observers(self) -> frozenset[DeviceId]:
        """Devices that are asked only to look."""
        return frozenset(self.opened.observers)

    @property
    def heard(self) -> set[DeviceId]:
        """Devices that need not be waited for."""
        return {*self.answers, *self.nothing, *self.unable}

    @property
    def unheard(self) -> tuple[DeviceId, ...]:
        """Devices that were asked something and had not answered when it was closed."""
        missing = () if self.closed is None else self.closed.missing
        looking = (device for device in self.opened.observers if device not in self.looked)
        return (*missing, *looking)

    @property
    def done(self) -> bool:
        """Whether nothing more comes of it."""
        if self.closed is None:
            return False
        return self.averaged or self.failed is not None or not self.closed.counted

    @property
    def refused(self) -> dict[DeviceId, str]:
        """Of whom nothing came that could be used, with what was said of it."""
        told = {} if self.closed is None else self.closed.refused
        refused = {device: reason for reason, devices in told.items() for device in devices}
        if self.failed is not None:
            refused |= dict.fromkeys(self.answers, self.failed)
        return self.unable | refused


@dataclass
class VoidRun:
    """Rounds of a stage that came to nothing, since the last one that brought it further."""

    rounds: list[Round] = field(default_factory=list)
    weighed: int = 0
    """How many of them, the oldest, count no more towards a stop: it was tried again since."""
    stopped: entries.RoundsStopped | None = None
    """Why nothing more is asked, while nothing is."""
    stopped_index: int | None = None

    def went_on(self, current: Round) -> None:
        """Begin anew if a round gave what those of the run did not give.

        A round that begins again with its first phase, and gets as far as that, does not.
        """
        if all(current.opened.round_of_stage >= r.opened.round_of_stage for r in self.rounds):
            self.rounds.clear()
            self.weighed = 0


@dataclass(frozen=True)
class RoundAnswered:
    """One answer that counts if its round does."""

    index: int
    payload: Digest
    samples: int


@dataclass(frozen=True)
class Weights:
    """The fleet's network as it is now."""

    offer: Offer
    class_names: tuple[ClassName, ...]
    """Rows of its head."""
    index: int
    """Of the entry that gave it: an import, or what a round gave."""
    extras: Mapping[str, Offer] = field(default_factory=dict)
    averaged: entries.WeightsAveraged | None = None
    averaged_ns: int | None = None

    @property
    def blobs(self) -> frozenset[Digest]:
        """The network and what goes with it."""
        return frozenset(offer.digest for offer in (self.offer, *self.extras.values()))


@dataclass(frozen=True)
class Made:
    """Weights that a round gave, and the entry that says so."""

    number: int
    index: int
    offer: Offer
    blobs: tuple[Digest, ...]
    """The weights and what goes with them."""


@dataclass
class OldModels:
    """What the proxy chose, and how far it has come."""

    chosen: entries.OldModelChosen | None = None
    """Its newest answer."""
    chosen_index: int | None = None
    settled: int = -1
    """The newest action that was answered, or waited for in vain."""

    @property
    def offers(self) -> dict[str, Offer]:
        """What devices get beside the fleet's weights, by the name under which methods know it."""
        if self.chosen is None:
            return {}
        slots = {OLD_MODEL: self.chosen.previous, NEW_MODEL: self.chosen.current}
        return {name: slot.weights for name, slot in slots.items() if slot is not None}


@dataclass
class Counted:
    """A contribution that is in the sum."""

    device: DeviceId
    key: PartKey
    payload: Digest
    lineage: Digest
    samples: dict[ClassName, int]


class CountedParts(dict[int, Counted]):
    """Contributions that are in the sum, by entry, with the samples that each device gave."""

    def __init__(self) -> None:
        super().__init__()
        self._samples: dict[tuple[DeviceId, Digest, int], Counter[ClassName]] = {}

    def put(self, index: int, item: Counted) -> None:
        """Let a contribution be in the sum."""
        self[index] = item
        of = (item.device, item.lineage, item.key.stage)
        self._samples.setdefault(of, Counter()).update(item.samples)

    def take_out(self, index: int) -> None:
        """Let a contribution be in the sum no more, if it is."""
        item = self.pop(index, None)
        if item is not None:
            self._samples[item.device, item.lineage, item.key.stage].subtract(item.samples)

    def samples(self, device: DeviceId, lineage: Digest, stage: int) -> Mapping[ClassName, int]:
        """Return what a device gave in a stage, by the names it used."""
        return self._samples.get((device, lineage, stage), {})


@dataclass
class Model:
    """A solved model; exported once it has a manifest."""

    solved: entries.ModelSolved
    solved_index: int
    solved_ns: int
    lineage: entries.Lineage
    exported: entries.ModelExported | None = None


@dataclass
class Desired:
    """The version that devices are to run, and the entry that says so."""

    version: int
    action: int
    devices: tuple[DeviceId, ...] | None = None
    """Those that the entry names; None for all."""
    spares: bool = False
    """Whether devices that were told a version of their own keep it."""
