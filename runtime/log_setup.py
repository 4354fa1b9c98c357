"""Having a program log: for people or programs, from which level on; and its events, summed up.

Nothing of it happens by itself: a program that is not told to log says no events, so a thousand
agents in one process stay quiet and cost nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import TextIO, TypeVar

from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.log_lines import FORMATTERS, LogEvent, LogFormat, LogLevel
from fleetledger.runtime.log_repeats import Repeats
from fleetledger.runtime.log_writer import SECONDS, LineWriter, summary

FORMAT_VARIABLE = "FLEETLEDGER_LOG_FORMAT"
LEVEL_VARIABLE = "FLEETLEDGER_LOG_LEVEL"
LINES = 20
"""Lines of one kind of event that are said in ten seconds; others are counted."""


class LogError(FleetledgerError):
    """The log is to look in a way that there is not."""


_Word = TypeVar("_Word", bound=Enum)


def configure(
    log_format: LogFormat | None = None,
    level: LogLevel | None = None,
    stream: TextIO | None = None,
) -> None:
    """Log from here on to `stream`, standard error where none is given.

    What is left out is read from the environment. Raises `LogError` for a wrong variable.
    """
    log_format = log_format or _from_environment(FORMAT_VARIABLE, LogFormat.TEXT, os.environ)
    level = level or _from_environment(LEVEL_VARIABLE, LogLevel.INFO, os.environ)
    quiet()
    writer = LineWriter(stream)
    writer.setFormatter(FORMATTERS[log_format]())
    root = logging.getLogger()
    root.addHandler(writer)
    root.setLevel(level.upper())


@contextmanager
def logging_on(
    log_format: LogFormat | None = None, level: LogLevel | None = None
) -> Iterator[None]:
    """Log to standard error meanwhile, as `configure` does; all of it is written at the end."""
    configure(log_format, level)
    try:
        yield
    finally:
        quiet()


def quiet() -> None:
    """Write what waits, and log no more."""
    root = logging.getLogger()
    for handler in _writers():
        root.removeHandler(handler)
        handler.close()
        root.setLevel(logging.WARNING)


def _writers() -> list[LineWriter]:
    handlers = logging.getLogger().handlers
    return [handler for handler in handlers if isinstance(handler, LineWriter)]


def _from_environment(name: str, default: _Word, environment: Mapping[str, str]) -> _Word:
    text = environment.get(name)
    if not text:
        return default
    try:
        return type(default)(text.lower())
    except ValueError:
        known = ", ".join(str(word.value) for word in type(default))
        raise LogError(f"{name}: {text!r} is none of {known}") from None


class EventLog:
    """Says what happened; of one kind of event so many lines in ten seconds, and a sum of the rest.

    `now` is any clock in seconds. One thread uses it.
    """

    def __init__(self, name: str, now: Callable[[], float], lines: int = LINES) -> None:
        self._log = logging.getLogger(name)
        self._now = now
        self._repeats: Repeats[str] = Repeats(lines, SECONDS)
        self.on = bool(_writers())
        """Whether the program logs at all, as of when this was made."""

    def wants(
        self, level: int, event: str, device: str | None = None, index: int | None = None
    ) -> bool:
        """Whether a line is to be said now; it is counted where it is one too many."""
        if not self.on or not self._log.isEnabledFor(level):
            return False
        self.sum_up()
        return self._repeats.lets(event, self._now(), level, device, index)

    def say(self, level: int, event: LogEvent, text: str) -> None:
        """Say a line that `wants` has let through."""
        self._log.log(level, "%s", text, extra={"about": event})

    def emit(self, level: int, event: LogEvent, text: str) -> None:
        """Say a line, unless it is one too many."""
        if self.wants(level, event.name, event.device, event.index):
            self.say(level, event, text)

    def sum_up(self, *, all_of_it: bool = False) -> None:
        """Say what was held back, once its ten seconds are over."""
        if not self._repeats.holds_back:
            return
        for event, held in self._repeats.over(float("inf") if all_of_it else self._now()):
            self.say(held.level, summary(event, held), f"… and {held.text} like it: {event}")
