"""Finding runs among drafts: entries in a row whose texts differ in whole values alone.

The values that differ are found once for a run; further texts are cut there by looking for what
lies between. `EntryRun` refuses what was cut wrongly, and the drafts stay by themselves then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from fleetledger.coordinator.errors import EntryError
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.runs import EntryRun
from fleetledger.coordinator.ledger.schema import RUN_KINDS

LEAST = 16
"""Entries from which on a run is worth its row."""
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(:?)|(-?[0-9][^,\]}]*|true|false|null)')
"""A key with its colon, or a value that is no list and no object."""


def in_runs(drafts: Sequence[EntryDraft | EntryRun]) -> list[EntryDraft | EntryRun]:
    """Return drafts for the ledger, `LEAST` and more in a row that fit each other as a run.

    Drafts need their texts (`entries.settled`) and times to be in one. Runs stay as they are.
    """
    found: list[EntryDraft | EntryRun] = []
    for outside, group in groupby(drafts, _outside_body):
        items = list(group)
        some = [item for item in items if isinstance(item, EntryDraft)]
        if outside is None or len(some) < LEAST:
            found += items
            continue
        for texts in _alike([draft.text or "" for draft in some]):
            part, some = some[: len(texts.texts)], some[len(texts.texts) :]
            run = _run(part, texts) if len(part) >= LEAST else None
            found += part if run is None else [run]
    return found


def _outside_body(draft: EntryDraft | EntryRun) -> tuple[object, ...] | None:
    """Return what entries of a run have alike beside their bodies; None of a draft for none."""
    if isinstance(draft, EntryRun):
        return None
    itself = draft.device is not None and draft.actor == draft.device and len(draft.blobs) <= 1
    if draft.kind in RUN_KINDS and itself and draft.text and draft.time_ns is not None:
        return draft.kind, draft.time_ns, len(draft.blobs)
    return None


class _Texts:
    """Texts in a row, cut at the values in which they differ."""

    def __init__(self, text: str) -> None:
        self._pieces, self._values = _tokens(text)
        self._differing = set[int]()
        self.texts = [text]
        self.cut = [text]
        self.values = list[list[str]]([[]])

    def fits(self, text: str) -> bool:
        """Take in one more text, if it fits; return whether it does."""
        values = _split(text, self.cut)
        if values is None:
            pieces, found = _tokens(text)
            if pieces != self._pieces:
                return False
            pairs = enumerate(zip(self._values, found, strict=True))
            self.differ({place for place, (one, other) in pairs if one != other})
            values = _split(text, self.cut)
        self.texts.append(text)
        self.values.append(values or [])
        return True

    def differ_in(self, value: str) -> None:
        """Cut at a value that is the same in all texts."""
        self.differ({place for place, one in enumerate(self._values) if one == value})

    def differ(self, places: set[int]) -> None:
        """Cut at more places."""
        self._differing |= places
        self.cut = [self._pieces[0]]
        for place, value in enumerate(self._values):
            if place in self._differing:
                self.cut.append("")
            else:
                self.cut[-1] += value
            self.cut[-1] += self._pieces[place + 1]
        self.values = [_split(text, self.cut) or [] for text in self.texts]


def _alike(texts: Sequence[str]) -> Iterator[_Texts]:
    """Yield texts in a row that fit each other."""
    some = _Texts(texts[0])
    for text in texts[1:]:
        if not some.fits(text):
            yield some
            some = _Texts(text)
    yield some


def _run(drafts: Sequence[EntryDraft], texts: _Texts) -> EntryRun | None:
    """Return the run of drafts; None where they are none."""
    first, blobs = drafts[0], [f'"{digest}"' for draft in drafts for digest in draft.blobs]
    if blobs and len({*blobs}) == 1:
        texts.differ_in(blobs[0])
    try:
        columns = tuple(zip(*texts.values, strict=True))
        place = columns.index(tuple(blobs)) if blobs else None
        devices = tuple(draft.device for draft in drafts if draft.device is not None)
        return EntryRun(first.kind, devices, tuple(texts.cut), columns, first.time_ns or 0, place)
    except (EntryError, ValueError):
        return None


def _split(text: str, cut: Sequence[str]) -> list[str] | None:
    """Return the values of a text between pieces; None where it has not all of these."""
    if len(cut) == 1:
        return [] if text == cut[0] else None
    at, end = len(cut[0]), len(text) - len(cut[-1])
    if not (text.startswith(cut[0]) and text.endswith(cut[-1])):
        return None
    values = []
    for piece in cut[1:-1]:
        place = text.find(piece, at, end)
        if place < 0 or place == at:
            return None
        values.append(text[at:place])
        at = place + len(piece)
    if at >= end:
        return None
    values.append(text[at:end])
    for value in values:
        if '"' in value[1:-1] or (value[0] != '"' and "," in value):
            token = _TOKEN.fullmatch(value)
            if token is None or token[2]:
                return None
    return values


def _tokens(text: str) -> tuple[list[str], list[str]]:
    """Return the values of a canonical text that are no list and no object, and the text around."""
    pieces, values, at = [], [], 0
    for token in _TOKEN.finditer(text):
        if not token[2]:
            pieces.append(text[at : token.start()])
            values.append(token[0])
            at = token.end()
    return [*pieces, text[at:]], values
