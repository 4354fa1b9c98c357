"""What commands show as JSON is described, and what they print is as it is described."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from fleetledger import command_line
from tests.docs.command_schemas import FOLDER, OF_ITS_OWN, REPORTS, file_name, schema_of, stale
from tests.test_docs import all_commands

PAGE = FOLDER.parent / "output.md"
OF_A_LIST = {
    "dashboard token": ("dashboard token", "dashboard token --list"),
    "ledger inspect": ("ledger inspect", "ledger inspect --rounds"),
    "simulate run": ("simulate --list",),
    "simulate sweep": ("simulate sweep --list",),
}
"""Commands that show something of their own with an option."""
WITHOUT_JSON = {
    "agent label": "serves a page until stopped",
    "agent run": "runs until stopped, and logs",
    "agent serve": "serves until stopped",
    "coordinator proxy": "runs until stopped, and logs",
    "coordinator serve": "runs until stopped, and logs",
    "dashboard": "serves pages until stopped",
    "demo": "shows a run for people, whose results are files",
    "ledger prove": "prints JSON in any case",
    "new": "writes files, and says what to type next",
    "unit": "prints a file of systemd",
}


def test_the_schemas_are_those_of_the_reports() -> None:
    assert stale() == [], "write them anew: make schemas"


@pytest.mark.parametrize("command", [*REPORTS, *OF_ITS_OWN])
def test_the_page_names_every_command_with_its_schema(command: str) -> None:
    name = file_name(command)
    row = f"| `{command}` | [{name.removesuffix('.schema.json')}](json/{name})"
    assert row in PAGE.read_text(encoding="utf-8")


def test_every_command_that_prints_json_has_a_schema() -> None:
    printing = {
        name.removeprefix("fleetledger ")
        for name, command in all_commands()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    shown = {each for name in printing for each in OF_A_LIST.get(name, (name,))}
    assert shown == {*REPORTS, *OF_ITS_OWN}


def test_every_command_that_acts_or_reports_prints_json() -> None:
    without = {
        name.removeprefix("fleetledger ")
        for name, command in all_commands()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == set(WITHOUT_JSON)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["agent", "doctor", "--json", "--home", "no-home"], "agent doctor"),
        (["agent", "init", "--device", "a", "--fleet", "f", "--json"], "agent init"),
        (["coordinator", "proxy-init", "--fleet", "f", "--json"], "coordinator proxy-init"),
        (["simulate", "--list", "--json"], "simulate --list"),
        (["simulate", "sweep", "--list", "--json"], "simulate sweep --list"),
        (["version", "--json"], "version"),
    ],
)
def test_what_needs_no_fleet_prints_as_its_schema_says(
    words: list[str], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command_line.app, words, catch_exceptions=False)
    jsonschema.validate(json.loads(done.stdout), schema_of(command))
