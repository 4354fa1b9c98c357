"""Names are completed from the home on the command line, and silently where there is none."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger import command_line
from fleetledger.coordinator import completion
from fleetledger.coordinator.ledger.schema import RUN_KINDS
from fleetledger.coordinator.paths import HOME_VARIABLE, ledger_path
from fleetledger.coordinator.reports import history
from tests.coordinator.every_kind.facts import unpack
from tests.test_architecture import ROOT


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = unpack(tmp_path_factory.mktemp("home"))
    with closing(sqlite3.connect(ledger_path(home))) as database, database:
        tags = "json_set(body, '$.tags', json('{\"site\": \"north\"}'))"
        database.execute("DROP TRIGGER entry_update_guard")
        database.execute(f"UPDATE entry SET body = {tags} WHERE kind = 'device.born'")
        database.execute(
            "INSERT INTO entry SELECT max(idx) + 1, 0, 'rollout.planned', 'core', NULL,"
            " '{\"rollout\": 1}', '[]', x'' FROM entry"
        )
    return home


def completed(line: str, shell: str = "bash", **env: str) -> list[str]:
    """Return what a shell is told to offer for the last word of a line."""
    words = f"fleetledger {line}".split(" ")
    told = {
        "_FLEETLEDGER_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": " ".join(words),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        **env,
    }
    done = CliRunner().invoke(command_line.app, [], env=told, prog_name="fleetledger")
    assert done.exit_code == 0, done.output
    return re.findall(r"[\w./=-]+", done.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("coordinator status --home {home} --device ", "dev-1"),
        ("device show --home {home} d", "dev-1"),
        ("device pin --home {home} dev-1 ", "1"),
        ("device list --home {home} --tag ", "site"),
        ("device tag --home {home} dev-1 s", "site=north"),
        ("model push --home {home} ", "1"),
        ("model rollback --home {home} --to ", "1"),
        ("class rename --home {home} ", "star"),
        ("coordinator open-stage --home {home} s", "star"),
        ("rollout show --home {home} ", "1"),
        ("ledger retract dev-1 --home {home} --part ", "1/"),
        ("ledger tail --home {home} --device ", "dev-1"),
    ],
)
def test_names_of_the_home_that_was_given_are_offered(
    home: Path, line: str, offered: str, shell: str
) -> None:
    assert offered in completed(line.format(home=home), shell)


def test_what_was_typed_chooses_among_them(home: Path) -> None:
    offered = completed(f"device show --home {home} dev-")
    assert offered
    assert all(name.startswith("dev-") for name in offered)
    assert completed(f"device show --home {home} nobody") == []
    assert completed(f"device list --home {home} --tag se") == []


def test_the_home_of_the_environment_is_the_default(home: Path) -> None:
    assert "dev-1" in completed("device show ", **{HOME_VARIABLE: str(home)})


def test_nothing_is_offered_and_nothing_said_where_there_is_no_ledger(tmp_path: Path) -> None:
    assert completed(f"device show --home {tmp_path / 'none'} ") == []
    place = ledger_path(tmp_path)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"no database")
    assert completed(f"model push --home {tmp_path} ") == []


ZSH = """
compdef() { }
_arguments() { print -r -- "$@" }
source "$1"
words=(${(z)2}) && [[ $2 == *' ' ]] && words+=('')
CURRENT=${#words}
_fleetledger_completion
"""
"""The function that zsh calls for the words of a line, as it calls it."""
SHELLS = {
    "zsh": ("-f", "-c", ZSH, "zsh"),
    "fish": ("--no-config", "-c", "source $argv[1]; complete --do-complete $argv[2]"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_other_shells_offer_the_same(home: Path, tmp_path: Path, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}: apt install {shell}")
    script, place = tmp_path / "completion", tmp_path / "fleetledger"
    place.write_text(f'#!/bin/sh\nexec {sys.executable} -m fleetledger "$@"\n')
    place.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",  # else it is that of the tests
    }
    shown = [place, "--show-completion", shell]
    script.write_bytes(subprocess.run(shown, capture_output=True, env=env, check=True).stdout)
    line = f"fleetledger class rename --home {home} s"
    words = [program, *SHELLS[shell], str(script), line]
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    assert {"square", "star"} <= set(re.findall(r"\w+", done.stdout)), done.stderr


def test_no_question_in_sql_is_about_kinds_of_which_some_entries_are_in_runs() -> None:
    asked = [text for module in (completion, history) for text in vars(module).values()]
    asked = [text for text in asked if isinstance(text, str) and "FROM entry" in text]
    assert len(asked) > len(RUN_KINDS)
    assert not [text for text in asked for kind in RUN_KINDS if kind in text]
