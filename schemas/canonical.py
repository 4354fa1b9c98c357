"""Canonical JSON: one text, one byte string; what is hashed, stored and (later) signed."""

from __future__ import annotations

import json
from typing import Any

from schemas.errors import SchemaError


def canonical_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Return the one byte string of `value`: sorted keys, no spaces, UTF-8, no NaN.

    Raises `SchemaError` where `value` is not JSON (NaN and infinity are not).
    """
    try:
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    except (TypeError, ValueError) as error:
        raise SchemaError(f"not representable as canonical JSON: {error}") from error
    return text.encode("utf-8")


def parse_json(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON bytes; raise `SchemaError` for anything else, NaN and infinity included."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise SchemaError(f"not valid JSON: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
