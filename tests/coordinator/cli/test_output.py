"""What commands show comes as tables, as tab-separated values and as JSON, all of one report."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

import jsonschema
import pytest
from rich.console import Console
from typer.testing import CliRunner

from fleetledger import command_line
from fleetledger.coordinator.reports import reports
from fleetledger.runtime.command_report import OUTPUT_VARIABLE, Column, Report, as_tsv, tsv_columns
from fleetledger.runtime.strict import Strict
from fleetledger.runtime.tables import drawn
from tests.coordinator.every_kind.facts import unpack
from tests.docs.command_schemas import REPORTS, schema_of

COMMANDS = (
    "coordinator status",
    "coordinator stages",
    "coordinator rounds",
    "class list",
    "model list",
    "model show 1",
    "trust show",
    "ledger replay --all",
    "ledger tail -n 200",
    "ledger show 43",
    "ledger verify",
)


def shown_by(command: str) -> str:
    """Return the command without its arguments."""
    return " ".join(command.split()[:2])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("home"))


def said(home: Path, command: str, form: str) -> str:
    words = [*command.split(), "--home", str(home)]
    env = {OUTPUT_VARIABLE: form}
    done = CliRunner().invoke(command_line.app, words, env=env, catch_exceptions=False)
    nobody_serves = 3 if command.startswith("coordinator status") else 0
    assert done.exit_code == nobody_serves, done.output
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_line_of_tab_separated_values_has_as_many_columns(home: Path, command: str) -> None:
    lines = said(home, command, "tsv").splitlines()
    assert lines[0].split("\t") == tsv_columns(REPORTS[shown_by(command)])
    assert {line.count("\t") for line in lines} == {lines[0].count("\t")}
    assert len(lines) > 1


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_as_its_schema_says(home: Path, command: str) -> None:
    values = json.loads(said(home, f"{command} --json", "table"))
    again = json.loads(said(home, command, "json"))
    assert list(values) == list(REPORTS[shown_by(command)].model_fields)
    moment = {"time": again.get("time")} if "time" in values else {}  # when each was asked
    assert {**values, **moment} == again
    jsonschema.validate(values, schema_of(shown_by(command)))


def test_a_text_with_tabs_and_line_breaks_stays_in_its_cell() -> None:
    entry = reports.ShownEntry(
        index=1, time=0, kind="k", actor="a", device=None, what="one\ttwo\nthree\x1b[1m"
    )
    (line,) = as_tsv(reports.EntriesReport(entries=(entry,)), head=False).splitlines()
    assert line.split("\t") == [
        "1",
        "1970-01-01T00:00:00Z",
        "k",
        "a",
        "",
        r"one\ttwo\nthree\x1b[1m",
    ]


class Number(Strict):
    number: Annotated[int, Column("number")]


class Numbers(Report):
    lines_field: ClassVar[str | None] = "numbers"
    titles: ClassVar[Mapping[str, str]] = {"numbers": "Numbers"}
    numbers: tuple[Number, ...]


def test_people_see_a_thousand_lines_and_are_told_where_all_are() -> None:
    report = Numbers(numbers=tuple(Number(number=n) for n in range(1_001)))
    console = Console(file=io.StringIO(), width=80)
    console.print(drawn(report, 80))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert " 999 " in said
    assert " 1000 " not in said
    assert "and 1 more; a pipe and --json have all" in said
    assert len(as_tsv(report).splitlines()) == 1_002


def test_a_form_that_is_none_is_refused(home: Path) -> None:
    words = ["class", "list", "--home", str(home)]
    done = CliRunner().invoke(command_line.app, words, env={OUTPUT_VARIABLE: "yaml"})
    assert done.exit_code != 0


def test_a_refusal_names_commands_with_the_home_that_was_given(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fleetledger", "device", "show", "x", "--home", str(home)])
    with pytest.raises(SystemExit):
        command_line.main()
    assert f"`fleetledger device list --home {home}`" in capsys.readouterr().err
