r"""Entries: what the ledger is made of, and the one byte string of each.

    entry bytes = canonical_json(head) || "\n" || canonical_json(body)
    head        = {"actor", "blobs", "device", "index", "kind", "time_ns", "v": 1}

Canonical JSON holds no line feed, so head and body are told apart in one way only. The leaf hash
covers every field, the index and the time included.

The laws: `Entry.from_row(entry.to_row()) == entry`, and an entry as appended equals the entry as
read back (tuples in a body become lists when the entry is made, not when it is stored).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, NamedTuple, NoReturn

from pydantic_core import from_json

from fleetledger.coordinator.errors import EntryError, LedgerCorruptError, Mismatch
from fleetledger.runtime.errors import FleetledgerError, SchemaError, shorten
from fleetledger.schemas.canonical import MAX_DEPTH, canonical_json, parse_json
from fleetledger.schemas.proofs.tree import leaf_hash
from fleetledger.schemas.values import DeviceId, Digest

MAX_BODY_BYTES = 1 << 20
"""Largest canonical body; what is larger belongs into a blob."""

COLUMNS = ("idx", "time_ns", "kind", "actor", "device", "body", "blobs", "leaf")
"""Columns of the table `entry`, in the order of `Entry.to_row`."""

_FORMAT_VERSION = 1
# What contains itself is refused for its depth; to look for it costs all others a third of a us.
_ENCODER = json.JSONEncoder(
    sort_keys=True,
    separators=(",", ":"),
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
)
_MAX_TIME_NS = (1 << 63) - 1
_KIND = re.compile(r"[a-z][a-z0-9._-]{0,63}")
_ACTOR = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,100}")
_KNOWN = 1 << 16
"""Names of devices, actors and kinds that are known to be spelled rightly: a ledger has few."""


class EntryDraft(NamedTuple):
    """An entry before the ledger has given it an index, and a time where it has none.

    A tuple takes half the time to make, and each entry begins as one of these.
    """

    kind: str
    actor: str
    body: dict[str, Any]
    device: DeviceId | None = None
    blobs: tuple[Digest, ...] = ()
    time_ns: int | None = None
    """Nanoseconds since 1970; None leaves it to the ledger's clock."""
    plain: bool = False
    """The body is what `model_dump(mode="json")` gave, and nobody else's: it is not copied."""
    text: str | None = None
    """Canonical text of the body, from `settled`; None where it was not made yet."""


@dataclass(frozen=True)
class Entry:
    """One committed (or just about to be committed) fact; raises `EntryError` when made wrongly.

    `body` is a copy in plain JSON types. Treat it as read-only: `canonical` and `leaf_hash` are
    made once.
    """

    index: int
    time_ns: int
    kind: str
    actor: str
    device: DeviceId | None
    body: dict[str, Any]
    blobs: tuple[Digest, ...] = ()
    plain: InitVar[bool] = False
    """See `EntryDraft.plain`."""
    text: InitVar[str | None] = None
    """See `EntryDraft.text`."""
    canonical: bytes = field(init=False, repr=False, compare=False)
    """The entry bytes of the module's docstring."""
    leaf_hash: bytes = field(init=False, repr=False, compare=False)
    """SHA-256(0x00 || canonical), 32 bytes."""
    _text: str = field(init=False, repr=False, compare=False)
    """The canonical JSON of the body."""

    def __post_init__(self, plain: bool, text: str | None) -> None:
        _check_fields(self)
        body = self.body
        if text is None:
            text, body = settled_body(self.kind, body, plain=plain)
        canonical = f"{_head(self)}\n{text}".encode()
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "canonical", canonical)
        object.__setattr__(self, "leaf_hash", leaf_hash(canonical))

    @classmethod
    def from_draft(cls, draft: EntryDraft, index: int, now_ns: int) -> Entry:
        """Give a draft its index, and the time `now_ns` unless it brings its own."""
        time_ns = now_ns if draft.time_ns is None else draft.time_ns
        kind, actor, body, device, blobs, _, plain, text = draft
        return cls(index, time_ns, kind, actor, device, body, blobs, plain, text)

    def to_draft(self) -> EntryDraft:
        """Return the draft that `from_draft` makes this entry of."""
        kind, actor, body = self.kind, self.actor, self.body
        return EntryDraft(
            kind, actor, body, self.device, self.blobs, self.time_ns, plain=True, text=self._text
        )

    def to_row(self) -> tuple[int, int, str, str, str | None, str, str, bytes]:
        """Return the values of `COLUMNS`."""
        return (
            self.index,
            self.time_ns,
            self.kind,
            self.actor,
            self.device,
            self._text,
            _blobs_text(self.blobs),
            self.leaf_hash,
        )

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Entry:
        """Read the values of `COLUMNS`; raise `LedgerCorruptError` where they do not fit together.

        An entry whose leaf differs from its bytes is never returned, so no reader acts on it.
        """
        return _read_quickly(cls, row) or cls._read_slowly(row)

    @classmethod
    def of_checked(cls, row: Sequence[Any]) -> Entry:
        """Read the values of `COLUMNS` of a row that somebody else checks, without its bytes.

        Whatever is raised where the row does not fit is of no meaning: who checks it tells.
        """
        index, time_ns, kind, actor, device, text, blobs, _leaf = row
        entry: Entry = object.__new__(cls)
        vars(entry).update(
            index=index,
            time_ns=time_ns,
            kind=kind,
            actor=actor,
            device=None if device is None else _device(device),
            body=from_json(text),
            blobs=() if blobs == "[]" else tuple(map(Digest, from_json(blobs))),
        )
        return entry

    @classmethod
    def _read_slowly(cls, row: Sequence[Any]) -> Entry:
        """Do it by making the entry anew, and name the first column that does not fit."""
        index, time_ns, kind, actor, device, body, blobs, _leaf = row
        try:
            entry = cls(
                index,
                time_ns,
                kind,
                actor,
                None if device is None else DeviceId(device),
                parse_json(str(body).encode("utf-8")),
                tuple(Digest(digest) for digest in parse_json(str(blobs).encode("utf-8"))),
            )
        except (FleetledgerError, TypeError) as error:
            _misfit(index, kind, "the row", "an entry that this program wrote", str(error))
        for name, expected, found in zip(COLUMNS, entry.to_row(), row, strict=True):
            if expected != found:
                _misfit(index, kind, name, _shown(expected), _shown(found))
        return entry


def _read_quickly(cls: type[Entry], row: Sequence[Any]) -> Entry | None:
    """Return the entry of a row that is as this program writes it; None where that takes a look.

    Nothing is made anew but the canonical text of the body, which has to be the one that is stored,
    and the hash: a third of the time for each of a million entries.
    """
    index, time_ns, kind, actor, device, text, blobs_text, leaf = row
    try:
        if not (_is_plain(text) and _fits_in_head(index, time_ns, kind, actor)):
            return None
        named = None if device is None else _device(device)
        blobs = () if blobs_text == "[]" else tuple(map(Digest, from_json(blobs_text)))
        body = from_json(text)
        if type(body) is not dict or _ENCODER.encode(body) != text:
            return None
    except (FleetledgerError, TypeError, ValueError, RecursionError):
        return None
    entry: Entry = object.__new__(cls)
    vars(entry).update(
        index=index, time_ns=time_ns, kind=kind, actor=actor, device=named, body=body, blobs=blobs
    )
    canonical = f"{_head(entry)}\n{text}".encode()
    leaf_found = leaf_hash(canonical)
    if leaf_found != leaf or _blobs_text(blobs) != blobs_text:
        return None
    vars(entry).update(canonical=canonical, leaf_hash=leaf_found, _text=text)
    return entry


def _is_plain(text: object) -> bool:
    """Whether the text of a body is so short and flat that its bounds need no look."""
    return (
        type(text) is str
        and len(text) <= MAX_BODY_BYTES // 4
        and text.count("{") + text.count("[") <= MAX_DEPTH
    )


def _fits_in_head(index: object, time_ns: object, kind: str, actor: str) -> bool:
    return (
        type(index) is int
        and index >= 0
        and type(time_ns) is int
        and time_ns >= 0
        and _names(_KIND, kind)
        and _names(_ACTOR, actor)
    )


@lru_cache(maxsize=_KNOWN)
def _names(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.fullmatch(text) is not None


@lru_cache(maxsize=_KNOWN)
def _device(name: str) -> DeviceId:
    """Return a device's name, checked; a long ledger has few devices."""
    return DeviceId(name)


def read_canonical(data: bytes) -> Entry:
    """Return the entry of its bytes, as `Entry.canonical` gives them; raise `EntryError`."""
    head, _, body = data.partition(b"\n")
    try:
        values = parse_json(head)
        device = values["device"]
        entry = Entry(
            values["index"],
            values["time_ns"],
            values["kind"],
            values["actor"],
            None if device is None else DeviceId(device),
            parse_json(body),
            tuple(Digest(digest) for digest in values["blobs"]),
        )
    except (FleetledgerError, KeyError, TypeError) as error:
        raise EntryError(f"entry: {shorten(data)} is none of this program's: {error}") from error
    if entry.canonical != data:
        raise EntryError(f"entry {entry.index}: its bytes are not in their one spelling")
    return entry


def settled(draft: EntryDraft) -> EntryDraft:
    """Return a draft that a ledger takes, with the text of its body; raise `EntryError`."""
    text, body = settled_body(draft.kind, draft.body, plain=draft.plain)
    _check_names(draft)
    return draft._replace(body=body, plain=True, text=text)


def settled_body(kind: str, body: object, *, plain: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the canonical text of a body, and the body as it will be read back.

    The law: the text is `canonical_json(body)`. A body that plain `json` reads back unchanged, and
    that cannot be nested too deeply, needs no further check; that is nearly every one, and three
    times as fast. One that is `plain` would be read back unchanged unless its text has half a
    surrogate pair. Raises `EntryError`.
    """
    if not isinstance(body, dict):
        raise EntryError(f"body of {kind}: {shorten(body)} is not allowed; give a JSON object")
    try:
        text = _ENCODER.encode(body)
        copy = body if plain else from_json(text)
        settled = (plain or copy == body) and text.count("{") + text.count("[") <= MAX_DEPTH
        if plain and not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError):
        settled = False
    if not settled:
        text, copy = _settled_slowly(kind, body)
    if len(text) > MAX_BODY_BYTES // 4 and len(text.encode()) > MAX_BODY_BYTES:
        raise EntryError(
            f"body of {kind}: {len(text.encode())} bytes are too many; "
            f"put what is above {MAX_BODY_BYTES} bytes into a blob and name its digest"
        )
    return text, copy


def _settled_slowly(kind: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    try:
        data = canonical_json(body)
        return data.decode("utf-8"), parse_json(data)
    except SchemaError as error:
        raise EntryError(f"body of {kind}: {error}") from error


def _head(entry: Entry) -> str:
    """Return the canonical JSON of the head; `_check_fields` left only the actor to be escaped."""
    device = f'"{entry.device}"' if entry.device is not None else "null"
    return (
        f'{{"actor":{encode_basestring(entry.actor)},"blobs":{_blobs_text(entry.blobs)},'
        f'"device":{device},"index":{entry.index},"kind":"{entry.kind}",'
        f'"time_ns":{entry.time_ns},"v":{_FORMAT_VERSION}}}'
    )


def head_template(kind: str, time_ns: int, blobs: str) -> str:
    """Return the canonical JSON of a head with places (%s) for actor, device and index.

    `blobs` is the text of its blobs, and may have places, too.
    """
    return (
        f'{{"actor":"%s","blobs":{blobs},"device":"%s","index":%s,"kind":"{kind}",'
        f'"time_ns":{time_ns},"v":{_FORMAT_VERSION}}}'
    )


def _blobs_text(blobs: tuple[Digest, ...]) -> str:
    return '["' + '","'.join(blobs) + '"]' if blobs else "[]"


def _check_fields(entry: Entry) -> None:
    if type(entry.index) is not int or entry.index < 0:
        raise EntryError(f"index: {shorten(entry.index)} is not allowed; count from 0")
    if type(entry.time_ns) is not int or not 0 <= entry.time_ns <= _MAX_TIME_NS:
        raise EntryError(
            f"time_ns: {shorten(entry.time_ns)} is not allowed; give nanoseconds since 1970"
        )
    _check_names(entry)


def _check_names(entry: Entry | EntryDraft) -> None:
    if not isinstance(entry.kind, str) or not _KIND.fullmatch(entry.kind):
        raise EntryError(
            f"kind: {shorten(entry.kind)} is not allowed; "
            "give 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter"
        )
    if not isinstance(entry.actor, str) or not _ACTOR.fullmatch(entry.actor):
        raise EntryError(
            f"actor: {shorten(entry.actor)} is not allowed; give 1 to 100 printable characters"
        )
    if entry.device is not None and type(entry.device) is not DeviceId:
        raise EntryError(f"device: {shorten(entry.device)} is not allowed; give a DeviceId")
    for digest in entry.blobs:
        if type(digest) is not Digest:
            raise EntryError(f"blobs: {shorten(digest)} is not allowed; give digests")


def _misfit(index: object, kind: object, name: str, expected: str, found: str) -> NoReturn:
    place = f"entry {index}"
    number = index if isinstance(index, int) else None
    raise LedgerCorruptError(Mismatch(place, name, expected, found, number, str(kind)))


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else shorten(value)
