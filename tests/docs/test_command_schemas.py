"""What commands show as JSON is described, and what they print is as it is described."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

import fleetledger
from tests.docs.command_schemas import FOLDER, OF_ITS_OWN, REPORTS, file_name, schema_of, stale
from tests.test_docs import all_commands

PAGE = FOLDER.parent / "output.md"
WITH_A_VERB = {"simulate run": "simulate --list"}
"""Commands whose `--json` belongs to one of their options."""


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
    assert {WITH_A_VERB.get(name, name) for name in printing} == {*REPORTS, *OF_ITS_OWN}


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["agent", "doctor", "--json", "--home", "no-home"], "agent doctor"),
        (["simulate", "--list", "--json"], "simulate --list"),
    ],
)
def test_what_needs_no_fleet_prints_as_its_schema_says(
    words: list[str], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(fleetledger.app, words)
    jsonschema.validate(json.loads(done.stdout), schema_of(command))
