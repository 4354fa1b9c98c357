"""Sentences with what they speak of as links."""

from __future__ import annotations

import re
from typing import NamedTuple

from fleetledger.coordinator.dashboard import addresses


class Piece(NamedTuple):
    """A part of a sentence; with an address it is a link."""

    text: str
    url: str = ""
    mono: bool = False


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
