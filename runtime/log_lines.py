"""How a line of the log looks, for people and for programs; the same in every program.

An event is what a person would ask about. It is said with `extra=about("payload.refused", ...)`;
lines without one are the programs' own words on what they meet. What a line holds may come from a
device, so control characters are escaped, and everything is bounded.
"""

from __future__ import annotations

import json
import logging
import time
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from fleetledger.runtime.shown_commands import with_homes

Scalar = str | int | float | bool | None

FIELDS: Mapping[str, str] = {
    "time": "when it was said: ISO 8601, UTC, milliseconds",
    "level": "`debug`, `info`, `warning`, `error` or `critical`",
    "logger": "the part of the program that says it",
    "event": "what happened, of the lists below; left out where it is none of them",
    "device": "the device that it is about",
    "index": "the entry of the ledger",
    "stage": "the stage",
    "round": "the round",
    "version": "the version of the model",
    "message": "the same in words, at most 2,000 characters",
    "count": "how many such lines were not said; `message` sums them up then",
    "devices": "of how many devices these were",
    "first_index": "the first of their entries in the ledger",
    "last_index": "the last of them",
    "exception": "the traceback of an error, its last 30,000 characters",
}
"""Fields of a line of JSON, in their order; those of the event itself follow."""

MOST_TEXT = 2000
MOST_FIELD = 300
MOST_MORE = 24
MOST_TRACEBACK = 30_000
_LEVELS = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode's categories of characters that move the cursor, reorder text or end a line."""


class LogFormat(str, Enum):
    """For whom lines are."""

    TEXT = "text"
    JSON = "json"


class LogLevel(str, Enum):
    """What is worth a line."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class LogEvent:
    """What a line of the log is about."""

    name: str
    device: str | None = None
    index: int | None = None
    stage: int | None = None
    round: int | None = None
    version: int | None = None
    more: Mapping[str, Scalar] = field(default_factory=dict)
    """What this event has beside."""

    def fields(self) -> Iterator[tuple[str, Scalar]]:
        """Yield the fields that it has, by their names in JSON."""
        yield "event", self.name
        for name in ("device", "index", "stage", "round", "version"):
            value = getattr(self, name)
            if value is not None:
                yield name, value


def about(
    event: str,
    *,
    device: str | None = None,
    index: int | None = None,
    stage: int | None = None,
    round: int | None = None,
    version: int | None = None,
    **more: Scalar,
) -> dict[str, object]:
    """Return the `extra` of a line that says an event."""
    return {"about": LogEvent(event, device, index, stage, round, version, more)}


def event_of(record: logging.LogRecord) -> LogEvent | None:
    """Return the event that a record says; None where it says none."""
    found = getattr(record, "about", None)
    return found if isinstance(found, LogEvent) else None


class TextLines(logging.Formatter):
    """`2026-11-23T20:05:00Z INFO  dev-3 #412 gave ...`; tracebacks follow whole, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the traceback of an error below it."""
        level = _LEVELS.get(record.levelno, record.levelname)
        line = f"{iso(record.created)} {level:<5} {self._said(record)}"
        trace = _traceback(record)
        if trace:
            line += "".join(f"\n    {plain(part)}" for part in trace.split("\n"))
        return line

    @staticmethod
    def _said(record: logging.LogRecord) -> str:
        event, text = event_of(record), cut(plain(with_homes(record.getMessage())), MOST_TEXT)
        if event is None:
            return f"{record.name}: {text}"
        where = "" if event.index is None else f"#{event.index} "
        if event.device is None:
            return where + text
        device = plain(cut(event.device, MOST_FIELD))
        for known in (f"Device {device} ", f"{device}: "):
            text = text.removeprefix(known)
        return f"{device} {where}{text}"


class JsonLines(logging.Formatter):
    """One object on one line, of ASCII alone."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        event = event_of(record)
        found: dict[str, Scalar] = {
            "time": iso(record.created, milliseconds=True),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if event is not None:
            found.update((name, _bounded(value)) for name, value in event.fields())
        found["message"] = cut(with_homes(record.getMessage()), MOST_TEXT)
        for name, value in list((event.more if event is not None else {}).items())[:MOST_MORE]:
            found.setdefault(name, _bounded(value))
        trace = _traceback(record)
        if trace:
            found["exception"] = trace[-MOST_TRACEBACK:]
        return json.dumps(found, ensure_ascii=True).replace("\x7f", "\\u007f")


FORMATTERS: Mapping[LogFormat, type[logging.Formatter]] = {
    LogFormat.TEXT: TextLines,
    LogFormat.JSON: JsonLines,
}


def iso(seconds: float, *, milliseconds: bool = False) -> str:
    """Return a time since 1970 in seconds as ISO 8601 in UTC."""
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{text}.{int(seconds * 1000) % 1000:03d}Z" if milliseconds else f"{text}Z"


def plain(text: str) -> str:
    """Return text in which nothing ends the line, moves the cursor or turns the direction."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _UNSAFE:
        return character
    return character.encode("unicode_escape").decode("ascii")


def cut(text: str, most: int) -> str:
    """Return text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _bounded(value: Scalar) -> Scalar:
    if isinstance(value, str):
        return cut(value, MOST_FIELD)
    # JSON has no word for infinity, and readers no room for integers of any length.
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    return value


def _traceback(record: logging.LogRecord) -> str:
    if record.exc_info and record.exc_info[0] is not None:
        return logging.Formatter().formatException(record.exc_info)
    return record.stack_info or ""
