"""On a pipe one line stays one line and tables keep their columns; the usual variables count."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.test_architecture import ROOT

WORDS = " ".join(f"word-{number}" for number in range(60))
PROGRAM = f"""
from fleetledger.coordinator.cli.common import say
from fleetledger.runtime.tables import print_table
say({WORDS!r})
print_table("Rows", ("name", "text"), [("one", {WORDS!r})])
"""
WRONG_USAGE = """
import sys
from fleetledger import command_line
sys.argv = ["fleetledger", "model", "push", "x"]
command_line.main()
"""
UNSET = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM")


def printed(code: str, env: Mapping[str, str]) -> str:
    """Return what a program prints into a pipe."""
    told = {name: value for name, value in os.environ.items() if name not in UNSET}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**told, "TERM": "xterm", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def test_a_line_and_a_row_are_one_line_on_a_pipe() -> None:
    lines = printed(PROGRAM, {}).splitlines()
    assert lines[0] == WORDS
    (row,) = [line for line in lines[1:] if "word-0" in line]
    assert "one" in row
    assert "word-59" in row


def test_columns_say_how_wide_a_table_is() -> None:
    text = printed(PROGRAM, {"COLUMNS": "60"})
    assert text.splitlines()[0] == WORDS
    assert len([line for line in text.splitlines()[1:] if "word-" in line]) > 1


@pytest.mark.parametrize(
    ("env", "coloured"), [({}, False), ({"FORCE_COLOR": "1"}, True), ({"NO_COLOR": "1"}, False)]
)
def test_colours_are_forced_and_taken_away(env: dict[str, str], coloured: bool) -> None:
    text = printed(PROGRAM, env)
    assert ("\x1b[" in text) == coloured
    assert "word-58 word-59" in text


def test_an_error_about_usage_has_no_frame_on_a_pipe() -> None:
    last = printed(WRONG_USAGE, {}).splitlines()[-1]
    assert last.startswith("Error: ")
    assert "integer" in last
