"""Names are completed from the home on the command line, and silently where there is none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fleetledger
from coordinator.paths import ledger_path
from coordinator.settings import HOME_VARIABLE
from tests.coordinator.every_kind.facts import run, unpack


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = unpack(tmp_path_factory.mktemp("home"))
    run(home, "rebuild")
    with closing(sqlite3.connect(ledger_path(home))) as database, database:
        tag = "INSERT INTO device_tag (device, name, value, hidden) VALUES ('dev-1', ?, ?, ?)"
        database.executemany(tag, [("site", "north", 0), ("secret", None, 1)])
        database.execute("INSERT INTO rollout (number) VALUES (1)")
    return home


def completed(line: str, **env: str) -> list[str]:
    """Return what the shell offers for the last word of a line."""
    words = f"fleetledger {line}".split(" ")
    told = {
        "_FLEETLEDGER_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        **env,
    }
    done = CliRunner().invoke(fleetledger.app, [], env=told, prog_name="fleetledger")
    assert done.exit_code == 0, done.output
    return done.stdout.split()


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
def test_names_of_the_home_that_was_given_are_offered(home: Path, line: str, offered: str) -> None:
    assert offered in completed(line.format(home=home))


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
