"""docs/logs.md names every field and every event, and at which level an entry is said."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from fleetledger.coordinator.core.state import KINDS
from fleetledger.coordinator.program.journal import COORDINATOR_EVENTS
from fleetledger.device_agent.program.journal import DEVICE_EVENTS
from fleetledger.runtime.log_lines import FIELDS
from fleetledger.runtime.log_setup import FORMAT_VARIABLE, LEVEL_VARIABLE
from fleetledger.transport.connection_log import BROKER_EVENTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
PROGRAMS = ("coordinator", "device_agent", "transport")
SAID = re.compile(r'\babout\(\s*"([a-z_.]+)"|_warn\("([a-z_.]+)"')


def test_the_table_of_fields_is_the_one_of_the_program() -> None:
    section = PAGE.split("## Fields")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    assert dict(rows) == dict(FIELDS)


def test_every_event_is_told() -> None:
    said = {*COORDINATOR_EVENTS, *DEVICE_EVENTS, *BROKER_EVENTS}
    for room in PROGRAMS:
        for path in (ROOT / room).rglob("*.py"):
            said |= {one or other for one, other in SAID.findall(path.read_text(encoding="utf-8"))}
    told = set(re.findall(r"`([a-z-]+\.[a-z_]+)`", PAGE)) - set(KINDS)
    assert said - told - set(KINDS) == set()
    assert {name for name in told if name not in said} == set()


def test_the_kinds_that_are_not_said_at_info_are_told() -> None:
    rows = dict(re.findall(r"^\| `(warning|debug)` \| (.*) \|$", PAGE, re.MULTILINE))
    told = {
        (kind, level) for level, text in rows.items() for kind in re.findall(r"`([a-z._-]+)`", text)
    }
    for name, kind in KINDS.items():
        if isinstance(kind.worth, int):
            level = logging.getLevelName(kind.worth).lower()
            assert level == "info" or (name, level) in told
        else:
            assert (name, "warning") in told
    assert {kind for kind, _ in told} <= {*KINDS, "operator.told"}


def test_the_variables_are_told() -> None:
    assert all(f"`{name}`" in PAGE for name in (FORMAT_VARIABLE, LEVEL_VARIABLE))
