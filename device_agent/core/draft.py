"""A draft of the records: what some changes make of them, until it is known to be on the disk.

Changes are applied to a draft. It reads through to the records below and keeps beside them what is
new and what is gone, so that the store writes just that, and `merge` brings just that into the
records once it is written. If it cannot be written, the draft is let go and nothing has happened.

The law, which the tests hold: after `merge` the records equal those to which the same had been done
at once, in the same order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, MutableMapping, MutableSet
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

from fleetledger.device_agent.core.records import (
    CountedImage,
    GivenPart,
    Height,
    HiddenPart,
    OutboxKey,
    OutboxMessage,
    ReadyPart,
)
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.values import ClassName, Digest

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
M = TypeVar("M", bound=Hashable)


class Overlay(MutableMapping[K, V]):
    """A mapping over another one: what was put since, and what is gone."""

    def __init__(self, below: dict[K, V]) -> None:
        self._below = below
        self.put: dict[K, V] = {}
        self.gone: set[K] = set()
        """Keys of the mapping below that were taken out; put again, they come last."""

    def __getitem__(self, key: K) -> V:
        if key in self.put:
            return self.put[key]
        if key in self.gone:
            raise KeyError(key)
        return self._below[key]

    def __setitem__(self, key: K, value: V) -> None:
        self.put[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self.put.pop(key, None)
        if key in self._below:
            self.gone.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self.put or (key in self._below and key not in self.gone)

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in self._below if key not in self.gone)
        yield from (key for key in self.put if self._comes_last(key))

    def __len__(self) -> int:
        return len(self._below) - len(self.gone) + sum(map(self._comes_last, self.put))

    def clear(self) -> None:
        """Take everything out."""
        self.put.clear()
        self.gone.update(self._below)

    def merge(self) -> None:
        """Bring everything into the mapping below."""
        self.merge_into(self._below)

    def merge_into(self, below: dict[K, V]) -> None:
        """Bring everything into the mapping that this one was made over, or an equal one."""
        for key in self.gone:
            del below[key]
        below.update(self.put)

    def _comes_last(self, key: K) -> bool:
        return key in self.gone or key not in self._below


class Groups(Mapping[K, Overlay[M, V]], Generic[K, M, V]):
    """Overlays by a key; one without members is none, and one that is asked for begins empty."""

    def __init__(self, below: dict[K, dict[M, V]]) -> None:
        self._below = below
        self.drawn: dict[K, Overlay[M, V]] = {}
        """Those that were looked at."""

    def __getitem__(self, key: K) -> Overlay[M, V]:
        if key not in self.drawn:
            self.drawn[key] = Overlay(self._below.get(key, {}))
        return self.drawn[key]

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in {**self._below, **self.drawn} if self[key])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def merge(self) -> None:
        """Bring everything into the mappings below."""
        for key, overlay in self.drawn.items():
            group = self._below.setdefault(key, {})
            overlay.merge_into(group)
            if not group:
                del self._below[key]


class Members(MutableSet[K]):
    """A set over another one: what was added since, and what is gone."""

    def __init__(self, below: set[K]) -> None:
        self._below = below
        self.put: set[K] = set()
        self.gone: set[K] = set()

    def __contains__(self, member: object) -> bool:
        return member in self.put or (member in self._below and member not in self.gone)

    def __iter__(self) -> Iterator[K]:
        yield from self._below - self.gone
        yield from self.put

    def __len__(self) -> int:
        return len(self._below) - len(self.gone) + len(self.put)

    def add(self, value: K) -> None:
        """Put a member in."""
        self.gone.discard(value)
        if value not in self._below:
            self.put.add(value)

    def discard(self, value: K) -> None:
        """Take a member out, if it is in."""
        self.put.discard(value)
        if value in self._below:
            self.gone.add(value)

    def merge(self) -> None:
        """Bring everything into the set below."""
        self._below -= self.gone
        self._below |= self.put


@dataclass(frozen=True)
class Refusal:
    """What was refused for good, and why."""

    key: OutboxKey
    revision: int
    body: Message | None
    """None for a part that was accepted before, whose message is not here any more."""
    reason: str


@dataclass(kw_only=True)
class Draft(AgentRecords):
    """The records as the changes of one transaction make them."""

    parts: Overlay[PartKey, GivenPart]
    counted: Groups[Digest, Digest, CountedImage]
    told: Groups[Digest, Digest, str]
    outbox: Overlay[OutboxKey, OutboxMessage]
    unusable: Overlay[Digest, str]
    unanswered: Groups[Digest, Digest, str]
    ready: Overlay[PartKey, ReadyPart]
    hidden: Overlay[PartKey, HiddenPart]
    nothing: Members[int]
    answered: Members[int]
    measured: Members[Digest]
    reported: Members[ClassName]
    heights: Overlay[str, Height]
    left_variants: Overlay[Digest, str]
    attached: dict[OutboxKey, bytes] = field(default_factory=dict)
    """Payloads that go with messages of this draft; on the disk alone, since they may be many."""
    refusals: list[Refusal] = field(default_factory=list)
    """What goes to the dead letters; on the disk alone."""

    @classmethod
    def of(cls, records: AgentRecords) -> Draft:
        """Begin a draft; the records must not change until it is merged or let go."""
        values = {name: getattr(records, name) for name in NAMES}
        values.update((name, layer(values[name])) for name, layer in LAYERS.items())
        return cls(**values)

    def post(self, key: OutboxKey, message: OutboxMessage, attached: bytes | None = None) -> None:
        """Put a message at the end of the outbox, in place of an earlier one of the same name."""
        self.outbox.pop(key, None)
        self.outbox[key] = message
        if attached is not None:
            self.attached[key] = attached

    def take_out(self, key: OutboxKey) -> None:
        """Take a message out of the outbox, if it is there."""
        self.outbox.pop(key, None)
        self.attached.pop(key, None)

    def refuse(self, refusal: Refusal) -> None:
        """Count something that was refused for good, and keep it for the owner to see."""
        self.refusals.append(refusal)
        self.dead_letters += 1

    def changed(self, records: AgentRecords) -> Iterator[str]:
        """Name the single values that differ from those of the records below."""
        for name in SINGLE:
            if getattr(self, name) is not getattr(records, name):
                yield name

    def merge(self, records: AgentRecords) -> None:
        """Bring everything into the records that it was begun over."""
        for name in self.changed(records):
            setattr(records, name, getattr(self, name))
        for name in LAYERS:
            getattr(self, name).merge()


NAMES = tuple(item.name for item in fields(AgentRecords))
LAYERS: dict[str, type[Overlay[Any, Any] | Groups[Any, Any, Any] | Members[Any]]] = {
    name: layer
    for name, kind in get_type_hints(Draft).items()
    if (layer := get_origin(kind)) in (Overlay, Groups, Members)
}
"""The fields that hold many values, each with how a draft lies over it."""
SINGLE = tuple(name for name in NAMES if name not in LAYERS)
"""The fields that hold one value."""
