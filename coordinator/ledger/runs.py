r"""Runs: entries in a row that differ in few places, stored as one row of the database.

    run         entries of one kind and time, each made by a device about itself
    pieces      canonical JSON of a body, cut where a whole value differs from entry to entry
    columns     for each cut the canonical JSON of its value, entry by entry

Entry n of a run has the body pieces[0] + columns[0][n] + pieces[1] + ... and the leaf that the same
entry written alone would have. A run is read back as rows of the table `entry`: nobody but the
store and the reader knows how an entry is kept.

Stored texts are line feeds apart, which canonical JSON never holds, and compressed. Digests and
leaves are no text and do not compress. `marks` tells for most devices without reading names that
they have no entry in the run: two bits of eight for each entry, chosen by the device's name.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import repeat
from typing import Any, cast

from pydantic_core import from_json

from fleetledger.coordinator.errors import EntryError, LedgerCorruptError, Mismatch
from fleetledger.coordinator.ledger.entries import (
    MAX_BODY_BYTES,
    Entry,
    head_template,
    settled_body,
)
from fleetledger.coordinator.ledger.schema import RUN_KINDS
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import shorten
from fleetledger.schemas.canonical import MAX_DEPTH
from fleetledger.schemas.proofs.tree import HASH_BYTES
from fleetledger.schemas.values import DeviceId, Digest

ROW_ENTRIES = 1024
"""Entries of one row: to read one of them, the texts of all are decompressed."""
_MARK_BITS = 8
"""Bits of `marks` for each entry: of the devices that have none, one in twenty seems to."""
_PLACE = "%place"
"""Stands for the value of each cut where pieces are read; bodies with such a text are in no run."""
_NUMBERED = re.compile(f'"{_PLACE}([0-9]+)"')
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)

Row = tuple[int, int, str, str, str, str, str, bytes]
"""A row of the table `entry`: the values of `entries.COLUMNS`."""


@dataclass(frozen=True)
class EntryRun:
    """Entries for `Ledger.append`, one for each of `devices`, which get indices in a row.

    Raises `EntryError` where one of them could not be written alone, and where they are no run.
    """

    kind: str
    """One of `schema.RUN_KINDS`."""
    devices: tuple[DeviceId, ...]
    """Actor and device of each entry."""
    pieces: tuple[str, ...]
    """One more than there are columns."""
    columns: tuple[Sequence[str], ...]
    time_ns: int
    blobs: int | None = None
    """Number of the column whose digests are the entries' blobs; None where they have no blobs."""

    def __post_init__(self) -> None:
        count = len(self.devices)
        if self.kind not in RUN_KINDS:
            raise EntryError(f"kind: {self.kind} is in no run; append such entries by themselves")
        if not count or set(map(type, self.devices)) != {DeviceId}:
            raise EntryError("devices: give the DeviceId of each entry, and one at least")
        if len(self.pieces) != len(self.columns) + 1:
            raise EntryError(
                f"pieces: {len(self.pieces)} do not enclose "
                f"{count_of(len(self.columns), 'column')}; give one more than columns"
            )
        for number, column in enumerate(self.columns):
            _check_column(number, column, count)
        if _places(self.pieces) != len(self.columns):
            raise EntryError("pieces: not cut at whole values of an object; cut there")
        self._check_bounds()
        if value_at(_cut(self.pieces), "replaces") is not None:
            raise EntryError("replaces: no entry of a run replaces one; append it by itself")
        texts = (column[0] for column in self.columns)
        text = _filled(self.pieces, texts)
        if settled_body(self.kind, from_json(text))[0] != text:
            raise EntryError(f"pieces: {shorten(text)} is not in its one spelling; sort its keys")
        if self.blobs is not None:
            _check_digests(self.columns[self.blobs])
        Entry(0, self.time_ns, self.kind, self.devices[0], self.devices[0], {})

    def __len__(self) -> int:
        return len(self.devices)

    def rows(self, first: int, sizes: Mapping[Digest, int]) -> Iterator[StoredRun]:
        """Yield what is stored of it from index `first` on.

        `sizes` are of blobs that were not kept; a row notes them where that is so of all its blobs.
        """
        known = cast("Mapping[str, int]", sizes)
        for start in range(0, len(self.devices), ROW_ENTRIES):
            part = slice(start, start + ROW_ENTRIES)
            named = () if self.blobs is None else self.columns[self.blobs][part]
            held = [known[text[1:-1]] for text in named if text[1:-1] in known]
            row = StoredRun(
                first=first + start,
                time_ns=self.time_ns,
                kind=self.kind,
                names=self.devices[part],
                pieces=self.pieces,
                columns=tuple(column[part] for column in self.columns),
                blobs=self.blobs,
                sizes=tuple(held) if named and len(held) == len(named) else None,
            )
            yield replace(row, leaves=b"".join(row.hashed()), marks=marks_of(row.names))

    def _check_bounds(self) -> None:
        """Refuse what would take a closer look at each entry."""
        longest = sum(map(len, self.pieces)) + sum(max(map(len, one)) for one in self.columns)
        nested = sum(map(_nested, self.pieces))
        nested += sum(max(map(_nested, one)) for one in self.columns if _nested("".join(one)))
        if longest > MAX_BODY_BYTES // 4 or nested > MAX_DEPTH:
            raise EntryError(
                f"pieces: bodies of up to {count_of(longest, 'character')} with {nested} brackets "
                "are in no run; append such entries by themselves"
            )


@dataclass(frozen=True)
class StoredRun:
    """A row of the table `run`, decompressed."""

    first: int
    """Index of its first entry."""
    time_ns: int
    kind: str
    names: Sequence[str]
    """Actor and device of each entry."""
    pieces: tuple[str, ...]
    columns: tuple[Sequence[str], ...]
    blobs: int | None
    sizes: tuple[int, ...] | None
    """Bytes of the entries' blobs where these were not kept; else None."""
    leaves: bytes = b""
    """Leaf hashes of the entries, as they are stored."""
    marks: bytes = b""
    """See the module's docstring."""

    def to_row(self) -> tuple[int, int, int, str, bytes, bytes, bytes, bytes, bytes]:
        """Return the values of `RUN_COLUMNS`."""
        texts = [json.dumps([self.blobs, self.sizes is not None, self.pieces])]
        for number, column in enumerate(self.columns):
            if number != self.blobs:
                texts += column
        texts += map(str, self.sizes or ())
        digests = "" if self.blobs is None else "".join(self.columns[self.blobs]).replace('"', "")
        return (
            self.first,
            len(self.names),
            self.time_ns,
            self.kind,
            self.marks,
            zlib.compress("\n".join(self.names).encode()),
            zlib.compress("\n".join(texts).encode()),
            bytes.fromhex(digests),
            self.leaves,
        )

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> StoredRun:
        """Read the values of `RUN_COLUMNS`; raise `LedgerCorruptError` where they cannot be read.

        That the entries have these leaves is left to whoever reads them.
        """
        first, count, time_ns, kind, marks, packed_names, packed_texts, digests, leaves = row
        try:
            names = unpacked(packed_names, first, kind)
            head, *texts = unpacked(packed_texts, first, kind)
            blobs, unkept, pieces = json.loads(head)
            columns = [texts[start : start + count] for start in range(0, len(texts), count)]
            sizes = tuple(map(int, columns.pop())) if unkept else None
            if blobs is not None:
                columns.insert(blobs, [f'"{one}"' for one in _hexes(digests)])
        except (ValueError, TypeError, LookupError) as error:
            raise _misfit(first, kind, str(error)) from error
        held = [len(names), *map(len, columns), len(leaves) / HASH_BYTES]
        if {*held} != {count} or len(columns) != len(pieces) - 1:
            raise _misfit(first, kind, f"{count} with columns of {held}")
        return cls(
            first, time_ns, kind, names, tuple(pieces), tuple(columns), blobs, sizes, leaves, marks
        )

    def check_marks(self) -> None:
        """Raise `LedgerCorruptError` unless the marks are of its devices."""
        if self.marks != marks_of(self.names):
            raise _misfit(self.first, self.kind, "marks of other devices")

    @cached_property
    def unkept(self) -> dict[str, int]:
        """Sizes of the entries' blobs that were not kept, by digest."""
        if self.blobs is None or self.sizes is None:
            return {}
        digests = (text[1:-1] for text in self.columns[self.blobs])
        return dict(zip(digests, self.sizes, strict=True))

    @property
    def end(self) -> int:
        """Index after its last entry."""
        return self.first + len(self.names)

    def rows(self, start: int, stop: int) -> Iterator[Row]:
        """Yield its entries with start <= index < stop as rows of the table `entry`."""
        part = slice(max(start - self.first, 0), max(stop - self.first, 0))
        numbers = range(self.first, self.end)[part]
        places = (HASH_BYTES * (index - self.first) for index in numbers)
        leaves = (self.leaves[place : place + HASH_BYTES] for place in places)
        blobs = ["[]"] * len(numbers)
        if self.blobs is not None:
            blobs = [f"[{digest}]" for digest in self.columns[self.blobs][part]]
        told = zip(numbers, self.names[part], self.bodies(part), blobs, leaves, strict=True)
        for index, name, body, digests, leaf in told:
            yield index, self.time_ns, self.kind, name, name, body, digests, leaf

    def bodies(self, part: slice) -> Iterator[str]:
        """Return the canonical texts of some bodies."""
        template = _template(self.pieces)
        if not self.columns:
            return iter([template % ()] * len(self.names[part]))
        return (
            template % texts for texts in zip(*(one[part] for one in self.columns), strict=True)
        )

    def values(self, start: int, stop: int, path: str) -> Iterator[Any]:
        """Yield what bodies of start <= index < stop have at a path; equal ones are one object."""
        part = slice(max(start - self.first, 0), max(stop - self.first, 0))
        numbered = (json.dumps(f"{_PLACE}{n}") for n in range(len(self.columns)))
        inside, names = from_json(_filled(self.pieces, numbered)), path.split(".")
        while names and isinstance(inside, dict):
            inside = inside.get(names.pop(0))
        if names or any(_PLACE in piece for piece in self.pieces):
            # In a value that differs, or beside a text that looks as if it did.
            yield from (value_at(from_json(body), path) for body in self.bodies(part))
            return
        *pieces, end = _NUMBERED.split(_ENCODER.encode(inside))
        places, made = list(map(int, pieces[1::2])), dict[tuple[str, ...], Any]()
        template = _template([*pieces[::2], end])
        columns = [self.columns[place][part] for place in places]
        rows = zip(*columns, strict=True) if columns else repeat((), len(self.names[part]))
        for texts in rows:
            if texts not in made:
                made[texts] = from_json(template % texts)
            yield made[texts]

    def text(self, index: int) -> str:
        """Return the bytes of one of its entries, as text."""
        place = index - self.first
        texts, name = [column[place] for column in self.columns], self.names[place]
        named = () if self.blobs is None else (texts[self.blobs],)
        return self._entry_template % (name, *named, name, index, *texts)

    def hashed(self) -> Iterator[bytes]:
        """Yield the leaf hash of each entry, made of its bytes."""
        template = f"\0{self._entry_template}"
        named = () if self.blobs is None else (self.columns[self.blobs],)
        numbers = range(self.first, self.end)
        columns = (self.names, *named, self.names, numbers, *self.columns)
        for texts in zip(*columns, strict=True):
            yield sha256((template % texts).encode()).digest()

    @cached_property
    def _entry_template(self) -> str:
        """Bytes of an entry with places for actor, blob, device, index and the columns."""
        blobs = "[]" if self.blobs is None else "[%s]"
        head = head_template(self.kind.replace("%", "%%"), self.time_ns, blobs)
        return f"{head}\n{_template(self.pieces)}"

    def having(self, values: Mapping[str, object]) -> list[int]:
        """Return the indices of entries whose bodies have some values, each named by its path."""
        found = list(range(len(self.names)))
        template = _cut(self.pieces)
        for path, value in values.items():
            if _PLACE in str(value_at(template, path)):
                bodies = list(map(from_json, self.bodies(slice(None))))
                found = [n for n in found if value_at(bodies[n], path) == value]
            elif value_at(template, path) != value:
                return []
        return [self.first + place for place in found]


def unpacked(data: bytes, first: int, kind: object) -> list[str]:
    """Return the stored texts of a run; raise `LedgerCorruptError`."""
    try:
        return zlib.decompress(data).decode().split("\n")
    except (zlib.error, ValueError, TypeError) as error:
        raise _misfit(first, kind, str(error)) from error


def _misfit(first: int, kind: object, found: str) -> LedgerCorruptError:
    place, expected = f"entry {first}", "entries that this program wrote"
    return LedgerCorruptError(Mismatch(place, "its run", expected, found, first, str(kind)))


def value_at(body: Any, path: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value that a body has at a path of names; None where it has none."""
    for name in path.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body


def marks_of(names: Iterable[str]) -> bytes:
    """Return the marks of devices that have an entry in a run."""
    named = list(names)
    size = max(1, len(named)) * _MARK_BITS
    marks = bytearray(size // 8)
    for name in named:
        for bit in _bits(name, size):
            marks[bit >> 3] |= 1 << (bit & 7)
    return bytes(marks)


def marked(marks: bytes, name: str) -> bool:
    """Return whether a device may have an entry in the run with these marks."""
    return all(marks[bit >> 3] >> (bit & 7) & 1 for bit in _bits(name, 8 * len(marks)))


def _bits(name: str, size: int) -> tuple[int, int]:
    number = zlib.crc32(name.encode())
    return number % size, number // size % size


def _hexes(digests: bytes) -> list[str]:
    text = digests.hex()
    return [text[n : n + 2 * HASH_BYTES] for n in range(0, len(text), 2 * HASH_BYTES)]


def _template(pieces: Sequence[str]) -> str:
    return "%s".join(piece.replace("%", "%%") for piece in pieces)


def _filled(pieces: Sequence[str], texts: Iterable[str]) -> str:
    return _template(pieces) % tuple(texts)


def _nested(text: str) -> int:
    return text.count("{") + text.count("[")


def _check_digests(column: Sequence[str]) -> None:
    text = "".join(column)[1:-1].replace('""', "")
    try:
        fits = bytes.fromhex(text).hex() == text and {*map(len, column)} == {2 * HASH_BYTES + 2}
    except ValueError:
        fits = False
    if not fits:
        raise EntryError(f"blobs: {shorten(text)} are no digests; give the column that has them")


def _cut(pieces: Sequence[str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return a body with `_PLACE` at each cut; raise `ValueError` where that is no JSON."""
    return from_json(_filled(pieces, [json.dumps(_PLACE)] * (len(pieces) - 1)))


def _check_column(number: int, column: Sequence[str], count: int) -> None:
    """Raise `EntryError` unless a column holds so many values, each in its one spelling."""
    joined = f"[{','.join(column)}]"
    try:
        values = from_json(joined)
        fits = len(column) == len(values) == count and _ENCODER.encode(values) == joined
    except (TypeError, ValueError, RecursionError):
        fits = False
    if not fits or "\n" in joined:
        raise EntryError(
            f"columns: number {number}, {shorten(joined)}, does not hold "
            f"{count_of(count, 'value')} of canonical JSON; give one for each device"
        )


def _places(pieces: Sequence[str]) -> int:
    """Return how many cuts of a template are whole values."""
    try:
        waiting = [_cut(pieces)]
    except ValueError:
        return -1
    found = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        found += value == _PLACE
    return found


RUN_COLUMNS = (
    "first", "count", "time_ns", "kind", "marks", "names", "texts", "digests", "leaves",
)  # fmt: skip
"""Columns of the table `run`, in the order of `StoredRun.to_row`."""
