"""Entries in sentences, with what they speak of as links."""

from __future__ import annotations

import re
from typing import NamedTuple

from fleetledger.coordinator.dashboard import addresses
from fleetledger.coordinator.ledger.describe import explain
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.reports.sentences import SENTENCES
from fleetledger.schemas.message import Strict
from fleetledger.schemas.times import IsoTime


class EntryLine(Strict):
    """An entry in a list."""

    index: int
    time: IsoTime
    kind: str
    device: str | None
    """The one that it is of, or about."""
    sentence: str


class Piece(NamedTuple):
    """A part of a sentence; with an address it is a link."""

    text: str
    url: str = ""
    mono: bool = False


def line_of(entry: Entry) -> EntryLine:
    """Return an entry as it stands in a list."""
    about = entry.body.get("device")
    return EntryLine(
        index=entry.index,
        time=entry.time_ns,
        kind=entry.kind,
        device=entry.device or (about if isinstance(about, str) else None),
        sentence=explain(entry, SENTENCES),
    )


_URLS = {
    "entry": addresses.entry_url,
    "model": addresses.model_url,
    "stage": addresses.stage_url,
    "round": addresses.round_url,
    "rollout": addresses.rollout_url,
}
_NUMBERED = r"\b(?P<what>[Ee]ntry|[Mm]odel|[Ss]tage|[Rr]ound|[Rr]ollout) (?P<number>[0-9]{1,12})\b"


def pieces(sentence: str, device: str | None = None) -> list[Piece]:
    """Return a sentence in pieces: what it names is a link."""
    named = rf"|(?<![\w.-])(?P<device>{re.escape(device)})(?![\w-])" if device else ""
    found, end = [], 0
    for match in re.finditer(_NUMBERED + named, sentence):
        if match.start() > end:
            found.append(Piece(sentence[end : match.start()]))
        found.append(_link(match))
        end = match.end()
    if end < len(sentence):
        found.append(Piece(sentence[end:]))
    return found


def _link(match: re.Match[str]) -> Piece:
    what = match["what"]
    if what is None:
        return Piece(match[0], addresses.device_url(match[0]), mono=True)
    return Piece(match[0], _URLS[what.lower()](int(match["number"])))
