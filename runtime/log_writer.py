"""Where lines of the log go: to a thread that writes, so that no program waits for who reads.

What cannot be written (nobody reads, the disk is full, standard error is closed) is lost and
counted; the number is told when there is room again. Warnings that repeat are summed up.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections import deque
from typing import TextIO

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.log_lines import LogEvent, event_of
from fleetledger.runtime.log_repeats import HeldBack, Repeats

MOST_WAITING = 10_000
"""Lines that wait to be written; more are lost."""
WARNINGS = 5
"""Warnings of one kind about one device that are said in `SECONDS`; others are counted."""
SECONDS = 10.0
_CLOSING_SECONDS = 2.0
_Kind = tuple[str, str, str]
"""Logger, event or form of the text, and device."""


class LineWriter(logging.Handler):
    """Writes lines to a stream, standard error where none is given; raises nothing."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self._stream = stream
        self._lines: deque[str] = deque()
        self._repeats: Repeats[_Kind] = Repeats(WARNINGS, SECONDS)
        self._lost = 0
        self._work = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record; the lock of the handler is held."""
        with contextlib.suppress(Exception):
            self._sum_up()
            if self._is_said(record):
                self._put(self.format(record))
            self._wake()

    def close(self) -> None:
        """Write what waits, for a few seconds at most."""
        with self.lock or contextlib.nullcontext():
            self._sum_up(float("inf"))
            self._closing = True
            thread = self._thread
        self._work.set()
        if thread is not None and thread.is_alive():
            thread.join(_CLOSING_SECONDS)
        super().close()

    def _is_said(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or record.exc_info:
            return True
        event = event_of(record)
        if event is not None and "count" in event.more:
            return True
        device = event.device if event is not None else None
        first = device or (
            str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
        )
        kind = (record.name, event.name if event is not None else str(record.msg), first[:100])
        index = event.index if event is not None else None
        return self._repeats.lets(kind, time.monotonic(), record.levelno, device, index)

    def _sum_up(self, now: float | None = None) -> None:
        """Tell what was held back."""
        for kind, held in self._repeats.over(time.monotonic() if now is None else now):
            self._put(self.format(_summed(kind, held)))

    def _put(self, line: str) -> None:
        if len(self._lines) >= MOST_WAITING:
            self._lost += 1
        else:
            self._lines.append(line)

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # it does not live on in a fork
            self._thread = threading.Thread(target=self._run, name="log", daemon=True)
            self._thread.start()
        self._work.set()

    def _run(self) -> None:
        while not self._closing or self._lines:
            self._work.wait(1.0 if self._repeats.holds_back else None)
            self._work.clear()
            if self._repeats.holds_back:
                with self.lock or contextlib.nullcontext():
                    self._sum_up()
            while self._lines:
                self._write(self._next())

    def _next(self) -> str:
        """Return a line, or as many as are small together; one call of the system costs most."""
        taken = [self._lines.popleft()]
        while self._lines and len(taken) < 100:
            taken.append(self._lines.popleft())
        if self._lost:
            lost, self._lost = self._lost, 0
            record = _record(
                "log", logging.WARNING, f"lost {count_of(lost, 'line')} of the log", None
            )
            taken.append(self.format(record))
        return "\n".join(taken) + "\n"

    def _write(self, text: str) -> None:
        try:
            stream = sys.stderr if self._stream is None else self._stream
            number = _file_number(stream)
            if number is None:
                stream.write(text)
                stream.flush()
            else:  # past the stream's own lock, which the end of the program would wait for
                data = text.encode("utf-8", "backslashreplace")
                while data:
                    data = data[os.write(number, data) :]
        except Exception:  # noqa: BLE001 - whatever a stream may raise, the program goes on
            self._lost += text.count("\n")


def _file_number(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError, ValueError):
        return None


def _summed(kind: _Kind, held: HeldBack) -> logging.LogRecord:
    logger, event, device = kind
    of = f"{device}: " if device and len(held.devices) <= 1 else ""
    text = f"{of}… and {held.text} like it: {event}"
    return _record(logger, held.level, text, summary(event, held))


def summary(event: str, held: HeldBack) -> LogEvent:
    """Return the event that stands for those that were not said."""
    device = next(iter(held.devices)) if len(held.devices) == 1 else None
    more = {
        "count": held.count,
        "devices": len(held.devices) or None,
        "first_index": held.first,
        "last_index": held.last,
    }
    return LogEvent(
        event, device, more={name: value for name, value in more.items() if value is not None}
    )


def _record(logger: str, level: int, text: str, event: LogEvent | None) -> logging.LogRecord:
    record = logging.LogRecord(logger, level, __file__, 0, text, None, None)
    record.about = event
    return record
