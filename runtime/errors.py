"""The root of the house's errors, and values cut to what fits a message.

FleetledgerError            everything this project raises on purpose
├── SchemaError             something from outside, or for there, breaks its form
│   └── InvalidValueError   a single field: names the field, the value and the way out
├── NobodyToAskError        a command would have to ask, and nobody is there
├── TransportError          (transport.errors)
├── MethodError             (methods.errors)
├── ExportError             (export.errors)
├── AgentError              (device_agent.errors)
└── CoordinatorError        (coordinator.errors)

`learning` is plain mathematics that knows no messages, so its errors have a root of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN_CHARACTERS = 80


class FleetledgerError(Exception):
    """Base of all errors raised on purpose; the text is meant for the person at the keyboard."""


class NobodyToAskError(FleetledgerError):
    """A command would have to ask, and nobody is there to answer; nothing was done."""


class SchemaError(FleetledgerError):
    """Something from outside, or for there, breaks its form: a message, a setting, a file."""


class InvalidValueError(SchemaError, ValueError):
    """A field holds a value that the protocol does not allow.

    It is a `ValueError` too, so that pydantic reports it as a validation error.
    """

    def __init__(self, field: str, value: object, way_out: str) -> None:
        self.field = field
        self.value = value
        self.way_out = way_out
        super().__init__(f"{field}: {shorten(value)} is not allowed; {way_out}")


def shorten(value: object) -> str:
    """Return `repr(value)`, cut to a length that fits a message.

    What is cut off is not written first: a value may be megabytes of somebody else's.
    """
    return cut(_written(value, _SHOWN_CHARACTERS + 1), _SHOWN_CHARACTERS)


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters; where it was longer, it ends in an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _written(value: object, enough: int) -> str:
    """Return the first `enough` characters of `repr(value)` at least, or all there are."""
    if isinstance(value, str | bytes):
        return repr(value[:enough])
    if type(value) is dict:
        pairs = (
            f"{_written(key, enough)}: {_written(item, enough)}" for key, item in value.items()
        )
        return _row("{", pairs, "}", enough)
    if type(value) is list:
        return _row("[", (_written(item, enough) for item in value), "]", enough)
    return repr(value)


def _row(first: str, pieces: Iterable[str], last: str, enough: int) -> str:
    text = first
    for number, piece in enumerate(pieces):
        text += f", {piece}" if number else piece
        if len(text) >= enough:
            return text
    return text + last
