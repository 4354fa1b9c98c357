"""Canonical JSON: one value, one byte string; what is hashed, stored and (later) signed.

Keys are sorted by code point, there are no spaces, text is UTF-8 and not escaped. Not every value
that Python's `json` accepts is allowed: keys are text and given once, numbers are finite, text has
no lone surrogates, and nothing is nested deeper than `MAX_DEPTH` levels, so that no later reader
(pydantic, SQLite, another language) can stumble over what was accepted here.

The laws: `parse_json(canonical_json(x)) == x`, and of all texts of a value exactly one is
canonical.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError, shorten

MAX_DEPTH = 32
"""Lists and objects inside each other; messages of this project need less than ten."""

MAX_DIGITS = 4300
"""Digits of one whole number: to read n of them takes time that grows with n squared. Newer Pythons
refuse more by themselves, unless somebody tells them not to."""

_INFINITY = float("inf")
_PLAIN = frozenset((int, bool, type(None)))
"""Types of which every value is JSON."""
_CONTAINERS = frozenset((dict, list, tuple))
_HOLDERS = (dict, list, tuple)
_SCALARS = _PLAIN | {str, float}
_TEXT = frozenset((str,))
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
"""Made once, for it is asked several times for every message."""


def canonical_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Return the one byte string of `value`: sorted keys, no spaces, UTF-8, no NaN.

    Tuples are written as lists. Raises `SchemaError` where `value` is not JSON: NaN, infinity,
    keys that are not text, lone surrogates, more than `MAX_DEPTH` levels, other types.
    """
    data = write_checked(value)
    _check_all_keys(value)
    return data


def read_canonical(data: bytes, most_values: int | None = None) -> tuple[Any, bool]:
    """Return the value of JSON bytes, and whether they are its one byte string.

    Raises `SchemaError` as `parse_json` does.
    """
    found = None if _too_many(data, most_values) else _read_quickly(data)
    return (parse_json(data, most_values), False) if found is None else (found[0], True)


def _read_quickly(data: bytes) -> tuple[Any] | None:
    """Return the value of canonical bytes; None for others, of which `parse_json` says more.

    What equals the text that is written of it has no key twice, no half of a pair, and no number
    that is none.
    """
    try:
        text = data.decode("utf-8")
        value = _decoder(_bounded_by_python(), whole=False).decode(text)
        if _ENCODER.encode(value) != text:
            return None
    except (ValueError, RecursionError):
        return None
    if text.count("{") + text.count("[") > MAX_DEPTH:
        _check(value)
    return (value,)


def write_checked(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Return the one byte string of a value whose keys are text, as of a model or `parse_json`.

    Raises as `canonical_json` does for all but keys.
    """
    try:
        data = _ENCODER.encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        _check(value)
        raise SchemaError(f"not representable as canonical JSON: {error}") from error
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH:
        _check(value)
    return data


def parse_json(data: bytes, most_values: int | None = None) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON bytes; raise `SchemaError` for anything else, NaN and infinity included.

    The time grows with the length and with nothing else, whatever the bytes are. What may be long
    gets a limit of its values too, since a megabyte of `[]` costs as much as forty of text: at most
    `most_values` commas and brackets, those within text included.
    """
    values = _too_many(data, most_values)
    if values:
        raise SchemaError(
            f"not accepted: JSON of {count_of(values, 'value')}; at most {most_values} are "
            "read here, so send fewer"
        )
    try:
        value = _decoder(_bounded_by_python()).decode(data.decode("utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise SchemaError(f"not valid JSON: {error}; send UTF-8 JSON") from error
    except RecursionError as error:
        raise _too_deep() from error
    _check(value)
    return value


def _too_many(data: bytes, most_values: int | None) -> int:
    """Return the number of commas and brackets where they are too many, else 0."""
    if most_values is None:
        return 0
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    return values if values > most_values else 0


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _bounded_by_python() -> bool:
    """Whether Python itself refuses whole numbers that are too long."""
    bound: Callable[[], int] = getattr(sys, "get_int_max_str_digits", lambda: 0)
    return 0 < bound() <= MAX_DIGITS


@cache
def _decoder(bounded: bool, *, whole: bool = True) -> json.JSONDecoder:
    """Return what reads JSON: made once, for it is asked several times for every message.

    Unless it is the whole check, keys may be given twice.
    """
    return json.JSONDecoder(
        parse_int=None if bounded else _whole_number,
        parse_constant=_refuse_constant,
        object_pairs_hook=_object if whole else None,
    )


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(
            f"a whole number of {count_of(len(digits), 'digit')}; at most {MAX_DIGITS} are read"
        )
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {shorten(name)} is given twice")
            seen.add(name)
    return members


def _check(value: object) -> None:
    """Raise `SchemaError` for what `json` lets pass, one level of nesting after the other."""
    level: list[Any] = [(value,)]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                _check_keys(container)
            for member in container.values() if isinstance(container, dict) else container:
                kind = type(member)
                if kind in _CONTAINERS:
                    below.append(member)
                elif kind not in _PLAIN and not (kind is str and member.isascii()):
                    _check_member(member, below)
        if not below:
            return
        level = below
    raise _too_deep()


def _check_all_keys(value: object) -> None:
    """Raise `SchemaError` for a key that is no text; `value` holds itself nowhere."""
    containers: list[Any] = [(value,)]
    for container in containers:
        members = container
        if isinstance(container, dict):
            members = container.values()
            if not _TEXT.issuperset(map(type, container)):
                _check_keys(container)
        if not _SCALARS.issuperset(map(type, members)):
            containers += [one for one in members if isinstance(one, _HOLDERS)]


def _check_member(member: object, below: list[Any]) -> None:
    """Check what is not one of the plain types; what holds others goes to the level below."""
    if isinstance(member, str):
        _check_text(member)
    elif isinstance(member, float):
        if not -_INFINITY < member < _INFINITY:
            raise SchemaError(f"not JSON: {member} is no number; send finite numbers")
    elif isinstance(member, dict | list | tuple):
        below.append(member)


def _check_keys(members: dict[Any, Any]) -> None:
    for key in members:
        if not isinstance(key, str):
            raise SchemaError(f"not JSON: the key {shorten(key)} is not text; write it as text")
        if not key.isascii():
            _check_text(key)


def _check_text(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SchemaError(
            f"not JSON: {shorten(text)} holds half a surrogate pair; send whole characters"
        ) from error


def _too_deep() -> SchemaError:
    return SchemaError(
        f"not accepted: JSON nested deeper than {MAX_DEPTH} levels; send a flatter value"
    )
