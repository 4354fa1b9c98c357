"""Lines of the log: the same fields everywhere, one line each, whatever a device says."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.runtime.log_lines import (
    FIELDS,
    MOST_TEXT,
    JsonLines,
    LogFormat,
    LogLevel,
    TextLines,
    about,
    plain,
)
from fleetledger.runtime.log_repeats import Repeats
from fleetledger.runtime.log_setup import EventLog, LogError, configure, quiet
from fleetledger.runtime.log_writer import WARNINGS, LineWriter

LOG = logging.getLogger("tests.log")


@pytest.fixture(autouse=True)
def quiet_again() -> Iterator[None]:
    yield
    quiet()


def record(text: str, *, level: int = logging.INFO, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("tests.log", level, __file__, 1, "%s", (text,), None)
    made.created = 1795464300.25
    if fields:
        vars(made).update(about(fields.pop("event"), **fields))
    return made


def logged(log_format: LogFormat = LogFormat.TEXT, level: LogLevel | None = None) -> io.StringIO:
    stream = io.StringIO()
    configure(log_format, level, stream)
    return stream


def lines(stream: io.StringIO) -> list[str]:
    quiet()
    return stream.getvalue().splitlines()


def test_a_person_reads_when_how_grave_who_where_and_what() -> None:
    said = record(
        "Device dev-3 gave 24 samples.", event="contribution.accepted", device="dev-3", index=412
    )
    assert TextLines().format(said) == "2026-11-23T20:05:00Z INFO  dev-3 #412 gave 24 samples."
    plainly = record("it is late", level=logging.WARNING)
    assert TextLines().format(plainly) == "2026-11-23T20:05:00Z WARN  tests.log: it is late"


def test_a_program_reads_the_same_by_fields() -> None:
    said = record(
        "so it is",
        event="model.switched",
        device="d",
        index=1,
        stage=2,
        round=3,
        version=4,
        reason="r",
    )
    assert json.loads(JsonLines().format(said)) == {
        "time": "2026-11-23T20:05:00.250Z",
        "level": "info",
        "logger": "tests.log",
        "event": "model.switched",
        "device": "d",
        "index": 1,
        "stage": 2,
        "round": 3,
        "version": 4,
        "message": "so it is",
        "reason": "r",
    }


@given(st.text(), st.text())
def test_one_event_is_one_line_without_control_characters(text: str, device: str) -> None:
    said = record(text, event="device.problem", device=device, reason=text)
    for formatter in (TextLines(), JsonLines()):
        line = formatter.format(said)
        assert len(line.splitlines()) == 1
        assert plain(line) == line


def test_what_is_long_is_cut_and_what_is_no_number_of_json_is_told() -> None:
    said = record("x" * 100_000, event="e", reason="y" * 100_000, loss=float("nan"))
    line = JsonLines().format(said)
    found = json.loads(line, parse_constant=lambda _: pytest.fail("no JSON"))
    assert len(found["message"]) == MOST_TEXT
    assert found["loss"] == "nan"
    assert len(line) < 4000


def test_an_error_is_told_whole() -> None:
    for log_format in LogFormat:
        stream = logged(log_format)
        try:
            int("a\x1b[31m")
        except ValueError:
            LOG.exception("it failed")
        text = "\n".join(lines(stream))
        assert "Traceback (most recent call last)" in text
        assert "test_log_lines.py" in text
        assert "\x1b" not in text


def test_a_warning_that_a_device_repeats_is_summed_up() -> None:
    stream = logged(LogFormat.JSON)
    for number in range(100):
        for device in ("dev-1", "dev-2"):
            LOG.warning(
                "%s: refused %d", device, number, extra=about("payload.refused", device=device)
            )
    found = [json.loads(line) for line in lines(stream)]
    assert len(found) == 2 * WARNINGS + 2
    assert [item["count"] for item in found if "count" in item] == [100 - WARNINGS] * 2
    assert {item["device"] for item in found if "count" in item} == {"dev-1", "dev-2"}
    assert {name for item in found for name in item} <= {*FIELDS}


def test_events_are_summed_up_with_their_devices_and_entries() -> None:
    now = 0.0
    stream = logged()
    events = EventLog("tests.log", lambda: now, lines=2)
    for index in range(500, 920):
        if events.wants(logging.INFO, "contribution.accepted", f"dev-{index % 390}", index):
            LOG.info("one")
    now = 11.0
    events.sum_up()
    assert lines(stream)[-1].endswith(
        "… and 418 more, of 390 devices (#502 to #919) like it: contribution.accepted"
    )


def test_a_program_that_is_not_told_to_log_says_nothing() -> None:
    events = EventLog("tests.log", lambda: 0.0)
    assert not events.wants(logging.CRITICAL, "device.problem")


def test_a_level_leaves_out_what_is_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_LOG_LEVEL", "Warning")
    stream = logged()
    LOG.info("no")
    LOG.warning("yes")
    assert [line.split()[-1] for line in lines(stream)] == ["yes"]
    monkeypatch.setenv("FLEETLEDGER_LOG_FORMAT", "xml")
    with pytest.raises(LogError, match="FLEETLEDGER_LOG_FORMAT: 'xml' is none of text, json"):
        configure()


def test_a_full_disk_and_a_closed_stream_raise_nothing_and_are_counted() -> None:
    class Full(io.StringIO):
        full = True

        def write(self, text: str) -> int:
            if self.full:
                raise OSError(28, "No space left on device")
            return super().write(text)

    stream = Full()
    writer = LineWriter(stream)
    writer.setFormatter(TextLines())
    for _ in range(7):
        writer.handle(record("x"))
    wait_until(lambda: not writer._lines and writer._lost == 7)
    stream.full = False
    writer.handle(record("y"))
    writer.close()
    assert [line.split(maxsplit=2)[-1] for line in stream.getvalue().splitlines()] == [
        "tests.log: y",
        "log: lost 7 lines of the log",
    ]
    stream.close()
    after = LineWriter(stream)
    after.handle(record("z"))
    after.close()


def test_nobody_waits_for_a_pipe_that_nobody_reads() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "w") as stream:
        writer = LineWriter(stream)
        writer.setFormatter(TextLines())
        for _ in range(20_000):
            writer.handle(record("x" * 500))
        assert len(writer._lines) <= 10_000
        assert writer._lost
        drained = threading.Thread(target=lambda: drain(pipe.fileno()), daemon=True)
        drained.start()
        writer.close()
        stream.close()
        drained.join()


def test_a_missing_standard_error_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    configure()
    LOG.error("nobody hears it")
    quiet()


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 4)), max_size=60))
def test_every_line_is_said_or_counted_once(steps: list[tuple[int, float]]) -> None:
    """said + counted == given, for any kinds at any times."""
    repeats, now, said, counted = Repeats[int](2, 10.0), 0.0, 0, 0
    for kind, seconds in steps:
        now += seconds
        counted += sum(held.count for _, held in repeats.over(now))
        said += repeats.lets(kind, now, logging.INFO)
    counted += sum(held.count for _, held in repeats.over(float("inf")))
    assert said + counted == len(steps)
    assert not repeats.holds_back


def drain(number: int) -> None:
    while os.read(number, 1 << 16):
        pass


def wait_until(holds: Any) -> None:
    waited = threading.Event()
    while not holds():
        waited.wait(0.01)
