"""What a stage's entries tell of a method whose devices look for new tasks, and of its proxy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coordinator.core import entries
from coordinator.ledger.entries import Entry
from schemas.rounds import TRAIN, Observation
from simulator.records import LookRecord, ProxyRecord
from simulator.virtual.proxy import ProxyTraffic

Found = tuple[Entry, entries.EntryBody]


def looks_of(found: Iterable[Found]) -> tuple[LookRecord, ...]:
    """Return every look of a stage, given its entries in order.

    One that came when its stage was closed is in no record: no round of the next one has it.
    """
    return tuple(_looks(found))


def _looks(found: Iterable[Found]) -> Iterator[LookRecord]:
    rounds: dict[int, int] = {}
    for entry, body in found:
        if isinstance(body, entries.RoundOpened) and body.phase == TRAIN:
            rounds[body.number] = len(rounds) + 1
            continue
        number, seen = _observation(body)
        if seen is not None and number in rounds and entry.device is not None:
            yield LookRecord(device=entry.device, round=rounds[number], **seen.model_dump())


def _observation(body: entries.EntryBody) -> tuple[int | None, Observation | None]:
    if isinstance(body, entries.NothingReported):
        return body.round, body.observation
    if isinstance(body, entries.ContributionAccepted) and body.answer is not None:
        return body.round, body.answer.observation
    return None, None


def proxy_record(found: Iterable[Found], traffic: ProxyTraffic) -> ProxyRecord:
    """Return what went to the proxy in a stage, of its entries and of what was carried."""
    bodies = [body for _, body in found]
    return ProxyRecord(
        gradient_bytes=traffic.devices.bytes_down,
        weight_bytes=sum(
            body.payload_bytes
            for body in bodies
            if isinstance(body, entries.ContributionAccepted) and body.answer is not None
        ),
        scored=sum(
            isinstance(body, entries.OldModelChosen) and body.newest is not None for body in bodies
        ),
        model_bytes=traffic.coordinator.bytes_down,
    )
