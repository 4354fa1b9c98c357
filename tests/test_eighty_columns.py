"""On a terminal of 80 columns no name is cut, and no sentence broken in its middle."""

from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fleetledger import command_line
from fleetledger.runtime.tables import drawn, print_table
from fleetledger.simulator.scenario.scenario_list import ScenariosReport, shipped_rows
from tests.coordinator.every_kind.facts import unpack
from tests.test_docs import all_commands

NARROW = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
COMMANDS = (
    "coordinator status",
    "coordinator stages",
    "coordinator rounds",
    "class list",
    "model list",
    "trust show",
)
HEADS = {
    "coordinator status": ("last", "samples"),
    "coordinator rounds": ("round", "counted", "drift", "down/up"),
}


def said(*words: str) -> str:
    return CliRunner().invoke(command_line.app, words, env=NARROW, catch_exceptions=False).output


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("command", COMMANDS)
def test_no_table_cuts_a_name_or_a_heading(home: Path, command: str) -> None:
    text = said(*command.split(), "--home", str(home))
    assert "…" not in text
    assert all(head in text for head in HEADS.get(command, ()))


def test_no_help_page_cuts_a_name_or_breaks_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name, _ in all_commands():
        page = said(*name.split()[1:], "--help")
        assert "…" not in page, name
        lines = [line.strip() for line in page.partition("╭")[0].splitlines()]
        broken = [
            line
            for line, after in pairwise(lines)
            if 0 < len(line) < 60 and after and line[-1] not in ".:"
        ]
        assert not broken, f"{name}: one line of source for a sentence of the help page: {broken}"


def test_the_list_of_scenarios_cuts_nothing() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        report = ScenariosReport(scenarios=tuple(shipped_rows()))
        console.print(drawn(report, 80), soft_wrap=True)
    assert "…" not in captured.get()


def test_a_text_that_has_no_room_stands_below(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [(1, "first-device", "it wants a/very/long/path/to/somewhere"), (2, "second", "well")]
    print_table("Devices", ("number", "device", "what came of it"), rows)
    told = capsys.readouterr().out
    assert "number 1, what came of it: it wants a/very/long/path/to/somewhere" in told
    assert "number 2, what came of it: well" in told
    assert max(map(len, told.split("number 1, ")[0].splitlines())) <= 40


def test_names_that_are_too_long_for_the_terminal_stay_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table("Devices", ("device", "other"), [("d" * 30, "e" * 30)])
    told = capsys.readouterr().out
    assert "d" * 30 in told
    assert "e" * 30 in told
