"""Answers to one round that are accepted together: entries that differ in few places.

The state takes them in once, and their JSON is that of the first with places for what differs.
Both are what the entries give one by one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from fleetledger.coordinator.core.entry import NewEntry
from fleetledger.coordinator.ledger.runs import EntryRun
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.contributions.state import (
    ContributionsState,
    GivenAmount,
    GivenSums,
    StageGiven,
)
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import BootId, DeviceId, Digest

_PLACES = (
    ("installation",),
    ("part", "payload"),
    ("part", "round", "loss"),
    ("part", "round", "samples"),
    ("part", "round", "steps"),
    ("part", "round", "stored_samples"),
    ("part", "samples"),
)
"""Where bodies of one round differ, in the order of canonical JSON."""
_PAYLOAD = 1
_CUT = re.compile('"<[0-9]>"')


class StoredAnswer(NamedTuple):
    """An answer to a round whose payload is in a sum; its device waits for no receipt."""

    device: DeviceId
    like: Contribution
    """Contribution that it equals but for payload and loss; shared by many answers."""
    payload: Digest
    loss: float | None

    @property
    def contribution(self) -> Contribution:
        """What its device would send."""
        offer = self.like.offer
        if offer is not None:
            moved = {"digest": self.payload, "list_digest": self.payload}
            offer = offer.model_copy(update=moved)
        own = {"payload": self.payload, "offer": offer, "round": self._round}
        return self.like.model_copy(update=own)

    @property
    def _round(self) -> RoundAnswer:
        told = self.like.round
        assert told is not None, "it answers a round"
        return told if told.loss == self.loss else told.model_copy(update={"loss": self.loss})


@dataclass(frozen=True)
class AcceptedAnswers:
    """Answers to one round that count in it, of devices with the installations beside them."""

    answers: Sequence[StoredAnswer]
    installations: Sequence[BootId | None]

    @cached_property
    def devices(self) -> tuple[DeviceId, ...]:
        """Their devices, in order."""
        return tuple([answer.device for answer in self.answers])

    @cached_property
    def payloads(self) -> list[Digest]:
        """Their payloads, in order."""
        return [answer.payload for answer in self.answers]

    @cached_property
    def likes(self) -> list[Contribution]:
        """What is said of each, but for its payload and loss."""
        return [answer.like for answer in self.answers]

    @property
    def entries(self) -> Iterator[NewEntry]:
        """The entries one by one."""
        for answer, installation in zip(self.answers, self.installations, strict=True):
            body = ContributionAccepted(part=answer.contribution.part, installation=installation)
            yield NewEntry(body, str(answer.device), answer.device)

    def give(self, contributions: ContributionsState, first: int) -> None:
        """Let contributions take them in, from entry `first` on, as they take in each entry.

        Many share what is said of them, so that it is summed once.
        """
        given = contributions.given.setdefault(self.likes[0].key.stage, StageGiven())
        amounts: dict[int, GivenAmount] = {}
        for index, (device, like) in enumerate(zip(self.devices, self.likes, strict=True), first):
            amount = amounts.get(id(like))
            if amount is None:
                samples = sum(like.samples.values())
                amount = amounts[id(like)] = GivenAmount(1, samples, like.payload_bytes)
            sums = given.devices.get(device)
            if sums is None:
                sums = given.devices[device] = GivenSums()
            former = sums.by_end.get("answer")
            sums.by_end["answer"] = amount if former is None else former + amount
            sums.newest = index
        given.sums.newest = first + len(self.devices) - 1
        times, told = Counter(map(id, self.likes)), {id(like): like for like in self.likes}
        for one, count in times.items():
            amount = amounts[one]
            whole = GivenAmount(count, count * amount.samples, count * amount.payload_bytes)
            given.sums.by_end["answer"] = given.sums.of("answer") + whole
            for name, samples in told[one].samples.items():
                added = GivenAmount(count, count * samples)
                given.classes[name] = given.classes.get(name, GivenAmount()) + added

    def written(self, time_ns: int) -> EntryRun:
        """Return what is written; what all bodies have is in no column."""
        first = next(self.entries).body.model_dump(mode="json")
        columns = self._columns()
        for place, path in enumerate(_PLACES):
            inside = first
            for name in path[:-1]:
                inside = inside[name]
            inside[path[-1]] = f"<{place}>"
        whole = canonical_json(first).decode()
        pieces = _CUT.split(whole)
        joined, kept, payload = [pieces[0]], list[list[str]](), 0
        for place, (column, piece) in enumerate(zip(columns, pieces[1:], strict=True)):
            if place != _PAYLOAD and column.count(column[0]) == len(column):
                joined[-1] += column[0] + piece
                continue
            payload = len(kept) if place == _PAYLOAD else payload
            kept.append(column)
            joined.append(piece)
        kind = ContributionAccepted.kind
        return EntryRun(kind, self.devices, tuple(joined), tuple(kept), time_ns, payload)

    def _columns(self) -> list[list[str]]:
        """Return the JSON of each place, answer by answer."""
        told = {one: _told(like) for one, like in {id(like): like for like in self.likes}.items()}
        rows = [told[id(like)] for like in self.likes]
        samples, steps, stored, per_class = map(list, zip(*rows, strict=True))
        losses = [answer.loss for answer in self.answers]
        return [
            ["null" if one is None else f'"{one}"' for one in self.installations],
            [f'"{payload}"' for payload in self.payloads],
            ["null" if loss is None else float.__repr__(loss) for loss in losses],
            samples,
            steps,
            stored,
            per_class,
        ]


def _told(like: Contribution) -> tuple[str, str, str, str]:
    """Return the JSON of what answers with equal counts have: samples, steps, stored, by class."""
    told = like.round
    assert told is not None, "it answers a round"
    counts: Sequence[Any] = (told.samples, told.steps, told.stored_samples)
    samples, steps, stored = map(str, counts)
    return samples, steps, stored, canonical_json(dict(like.samples)).decode()
