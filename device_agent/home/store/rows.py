"""The records as rows (field, key, value), derived from the types of their fields.

A single value is one row with an empty key, a mapping or a set one row for each key. Text stands
there as it is, all else as JSON. A field that is added to `AgentRecords` is written and read
without a line here; one without a row has its default.

The laws, which the tests hold: records that are loaded equal those in memory, in the order of their
mappings; and the rows of many small drafts equal those of one large one.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from fleetledger.device_agent.core.draft import LAYERS, Draft, Groups, Members
from fleetledger.device_agent.core.records import OutboxBody, OutboxKey, OutboxMessage
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.learning.numerics.detection import Detector
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.canonical import canonical_json, parse_json
from fleetledger.schemas.message import explain

RowName = tuple[str, str]
"""Field and key."""
Row = tuple[str, str, str]
"""Field, key, value."""
_BETWEEN = " "
"""Stands between the two keys of mappings in a mapping; no digest holds it."""


@dataclass(frozen=True)
class Text:
    """How values of a type become text, and text becomes them again."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]


def write_draft(db: sqlite3.Connection, draft: Draft, records: AgentRecords) -> None:
    """Write what a draft changes, inside a transaction that the caller has begun."""
    gone, put = changed_rows(draft, records)
    _execute(db, "DELETE FROM record WHERE field = ? AND key = ?", gone)
    _execute(
        db,
        "INSERT INTO record (field, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (field, key) DO UPDATE SET value = excluded.value",
        put,
    )
    _write_beside(db, draft)


def changed_rows(draft: Draft, records: AgentRecords) -> tuple[list[RowName], list[Row]]:
    """Return the rows that go, and then those that come or change."""
    gone = [row for name in LAYERS for row in _gone(name, draft)]
    put = [row for name in LAYERS for row in _put(name, draft)]
    for name in draft.changed(records):
        value = getattr(draft, name)
        if value is None:
            gone.append((name, ""))
        else:
            put.append((name, "", _FIELDS[name].value.write(value)))
    return gone, put


def load_records(db: sqlite3.Connection) -> AgentRecords:
    """Return what the database holds; raise `SchemaError` for what this program cannot read."""
    return records_of(db.execute("SELECT field, key, value FROM record ORDER BY id"))


def records_of(rows: Iterable[Row]) -> AgentRecords:
    """Return the records of rows in their order; raise `SchemaError` for an unknown field."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, key, value in rows:
        found.setdefault(name, []).append((key, value))
    unknown = found.keys() - _FIELDS.keys()
    if unknown:
        raise SchemaError(f"{min(unknown)}: a record that this program does not know")
    return AgentRecords(**{name: _read(name, rows) for name, rows in found.items()})


def message_name(message: OutboxKey) -> str:
    """Return the text by which a message of the outbox is stored."""
    return _FIELDS["outbox"].key.write(message)


def read_attached(db: sqlite3.Connection, message: OutboxKey) -> bytes:
    """Return the payload that lies with a message, empty where there is none."""
    name = message_name(message)
    row = db.execute("SELECT payload FROM attached WHERE letter = ?", [name]).fetchone()
    return b"" if row is None else bytes(row[0])


def _gone(name: str, draft: Draft) -> Iterator[tuple[str, str]]:
    layer, text = getattr(draft, name), _FIELDS[name]
    if isinstance(layer, Groups):
        for group, overlay in layer.drawn.items():
            first = text.group.write(group) + _BETWEEN
            yield from ((name, first + text.key.write(key)) for key in overlay.gone)
    else:
        yield from ((name, text.key.write(key)) for key in layer.gone)


def _put(name: str, draft: Draft) -> Iterator[Row]:
    layer, text = getattr(draft, name), _FIELDS[name]
    if isinstance(layer, Groups):
        for group, overlay in layer.drawn.items():
            first = text.group.write(group) + _BETWEEN
            for key, value in overlay.put.items():
                yield name, first + text.key.write(key), text.value.write(value)
    elif isinstance(layer, Members):
        yield from ((name, text.key.write(key), "") for key in layer.put)
    else:
        for key, value in layer.put.items():
            yield name, text.key.write(key), text.value.write(value)


def _write_beside(db: sqlite3.Connection, draft: Draft) -> None:
    """Write what is on the disk alone: payloads of messages, and dead letters."""
    gone = [(message_name(key),) for key in draft.outbox.gone]
    _execute(db, "DELETE FROM attached WHERE letter = ?", gone)
    _execute(
        db,
        "INSERT INTO attached (letter, payload) VALUES (?, ?)",
        [(message_name(key), payload) for key, payload in draft.attached.items()],
    )
    _execute(
        db,
        "INSERT INTO dead_letter (about, stage, part, revision, body, reason, time_ns)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                item.key.about,
                item.key.key.stage,
                item.key.key.part,
                item.revision,
                "{}" if item.body is None else _plain_json(item.body),
                item.reason,
                time.time_ns(),
            )
            for item in draft.refusals
        ],
    )


def _execute(db: sqlite3.Connection, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:  # most changes have few kinds of rows, and each statement costs
        db.executemany(sql, rows)


def _read(name: str, rows: Iterable[tuple[str, str]]) -> Any:  # noqa: ANN401 - as the field says
    text, layer = _FIELDS[name], LAYERS.get(name)
    try:
        if layer is Members:
            return {text.key.read(key) for key, _ in rows}
        if layer is Groups:
            return _read_groups(text, rows)
        if layer is not None:
            return {text.key.read(key): text.value.read(value) for key, value in rows}
        return text.value.read(next(iter(rows))[1])
    except (ValidationError, ValueError) as error:
        told = explain(error) if isinstance(error, ValidationError) else error
        raise SchemaError(f"{name}: {told}") from error


def _read_groups(text: _Field, rows: Iterable[tuple[str, str]]) -> dict[Any, dict[Any, Any]]:
    groups: dict[Any, dict[Any, Any]] = {}
    # One object for each text: there are many images, and few parts and classes.
    shared: dict[str, Any] = {}
    for key, value in rows:
        first, second = key.split(_BETWEEN, 1)
        if value not in shared:
            shared[value] = text.value.read(value)
        groups.setdefault(text.group.read(first), {})[text.key.read(second)] = shared[value]
    return groups


def _plain_json(message: BaseModel) -> str:
    return canonical_json(message.model_dump(mode="json")).decode("utf-8")


def _text_of(kind: Any) -> Text:  # noqa: ANN401 - any type of a field
    """Return how values of a type are written."""
    kinds = [item for item in get_args(kind) if item is not type(None)]
    if type(None) in get_args(kind) and len(kinds) == 1:
        return _text_of(kinds[0])
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    if isinstance(kind, type) and issubclass(kind, str):
        return Text(str, kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        # Agents that share a process have mostly the same messages.
        return Text(_plain_json, lru_cache(maxsize=16)(kind.model_validate_json))
    adapter = TypeAdapter(kind)
    return Text(lambda value: adapter.dump_json(value).decode("utf-8"), adapter.validate_json)


def _write_message(message: OutboxMessage) -> str:
    plain = [message.revision, message.body.kind, message.body.model_dump(mode="json")]
    return canonical_json(plain).decode("utf-8")


def _read_message(text: str) -> OutboxMessage:
    revision, kind, body = parse_json(text.encode("utf-8"))
    if kind not in _BODIES:
        raise SchemaError(f"message: {kind!r} is of no kind that this program knows")
    return OutboxMessage(revision, _BODIES[kind].read(body))


def _write_detector(detector: Detector) -> str:
    return canonical_json(detector.to_plain()).decode("utf-8")


def _read_detector(text: str) -> Detector:
    try:
        return Detector.from_plain(parse_json(text.encode("utf-8")))
    except (KeyError, TypeError, IndexError, ValueError):
        # Of another version; what is normal here is learned again.
        return Detector()


_BODIES: dict[str, type[OutboxBody]] = {kind.kind: kind for kind in get_args(OutboxBody)}
_SPECIAL = {
    OutboxMessage: Text(_write_message, _read_message),
    Detector: Text(_write_detector, _read_detector),
}


@dataclass(frozen=True)
class _Field:
    group: Text
    key: Text
    value: Text


def _field(name: str, kind: Any) -> _Field:  # noqa: ANN401 - the type of a field of `AgentRecords`
    plain, layer = _text_of(str), LAYERS.get(name)
    if layer is None:
        return _Field(plain, plain, _text_of(kind))
    if layer is Members:
        return _Field(plain, _text_of(*get_args(kind)), plain)
    key, value = get_args(kind)
    if layer is Groups:
        return _Field(_text_of(key), *map(_text_of, get_args(value)))
    return _Field(plain, _text_of(key), _text_of(value))


_FIELDS = {name: _field(name, kind) for name, kind in get_type_hints(AgentRecords).items()}
