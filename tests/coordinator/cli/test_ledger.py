"""`fleetledger ledger tail | show | verify`, run as commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.schemas.values import Digest
from tests.coordinator.ledger.support import LARGE, draft, fill, open_store, tampering


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "ledger").mkdir()
    fill(tmp_path / "ledger")
    return tmp_path


def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, list(arguments), env=environment)
    return result.exit_code, result.stdout, result.stderr


def test_tail_prints_the_newest_entries_as_columns(home: Path) -> None:
    code, out, _ = run("tail", "-n", "2", "--home", str(home))
    lines = [line.split("  ", 2) for line in out.splitlines()]
    assert code == 0
    assert [line[0] for line in lines] == ["10", "11"]
    assert lines[0][1] == "1970-01-01T00:00:00Z"
    assert lines[0][2].startswith(
        "device-1 recorded contribution.withdrawn: note = 'é', number = 10"
    )


def test_a_terminal_gets_texts_as_they_are(home: Path) -> None:
    with Ledger.open(home / "ledger" / "ledger.db") as ledger:
        ledger.append([EntryDraft("class.named", "operator", {"name": "[bold]Katze"})])
    code, out, _ = run("tail", "-n", "1", "--home", str(home), FORCE_COLOR="1", COLUMNS="120")
    assert code == 0
    assert "name = '[bold]Katze'" in out


def test_tail_prints_twenty_unless_told_otherwise(home: Path) -> None:
    with Ledger.open(home / "ledger" / "ledger.db") as ledger:
        ledger.append([draft(n) for n in range(12, 30)])
    out = run("tail", "--home", str(home), FLEETLEDGER_OUTPUT="tsv")[1]
    assert len(out.splitlines()) == 1 + 20


def test_the_home_folder_may_come_from_the_environment(home: Path) -> None:
    where = {"FLEETLEDGER_COORDINATOR": str(home), "FLEETLEDGER_OUTPUT": "tsv"}
    code, out, _ = run("tail", **where)
    assert (code, len(out.splitlines())) == (0, 1 + 12)


def test_tail_follows_new_entries_until_it_is_interrupted(home: Path) -> None:
    command = (
        # A shell's background jobs ignore SIGINT, and what they start inherits that.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from fleetledger.coordinator.cli import ledger as cli;"
        "cli.app()"
    )
    with subprocess.Popen(
        [sys.executable, "-u", "-c", command, "tail", "-n", "1", "--follow", "--home", str(home)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "FLEETLEDGER_OUTPUT": "tsv"},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("index\t")
        assert process.stdout.readline().startswith("11\t")
        with Ledger.open(home / "ledger" / "ledger.db") as ledger:
            ledger.append([draft(12)])
        assert process.stdout.readline().startswith("12\t")
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0


def test_show_explains_an_entry_and_prints_all_of_it(home: Path) -> None:
    code, out, _ = run("show", "5", "--home", str(home))
    assert code == 0
    assert out.startswith("device-2 recorded contribution.accepted: ")
    assert "number = 5" in out.splitlines()[0]
    assert f"   blob  {Digest.of(LARGE)}\n" in out
    assert '"note": "é"' in out


def test_show_of_an_index_outside_is_a_usage_error(home: Path) -> None:
    code, _, err = run("show", "12", "--home", str(home))
    assert (code, err) == (2, "index: 12 is not in the ledger; it holds 12 entries\n")


def test_verify_says_how_much_fits(home: Path) -> None:
    code, out, _ = run("verify", "--home", str(home))
    assert code == 0
    assert out.startswith("12 entries, 3 checkpoints and 2 blobs fit; root ")


def test_verify_names_what_does_not_fit_and_fails(home: Path) -> None:
    open_store(home / "ledger").delete(Digest.of(LARGE))
    code, _, err = run("verify", "--home", str(home))
    assert code == 1
    assert "does not fit: entry 5 (contribution.accepted): blob " in err


def test_verify_looks_for_blobs_where_the_settings_say(home: Path) -> None:
    (home / "ledger" / "blobs").rename(home / "elsewhere")
    (home / "coordinator.toml").write_text(f'fleet = "f"\nblobs = "{home}/elsewhere"\n')
    assert run("verify", "--home", str(home))[0] == 0
    (home / "coordinator.toml").write_text("fleet = 3\n")
    code, _, err = run("verify", "--home", str(home))
    assert code == 2
    assert "fleet" in err


@pytest.mark.parametrize("verb", [["tail"], ["show", "0"], ["verify"]])
def test_a_home_without_a_ledger_is_a_usage_error(tmp_path: Path, verb: list[str]) -> None:
    code, _, err = run(*verb, "--home", str(tmp_path))
    assert code == 2
    assert f"--home: no ledger at {tmp_path}" in err


def test_a_damaged_ledger_is_a_sentence_and_no_traceback(home: Path) -> None:
    with tampering(home / "ledger" / "ledger.db") as connection:
        connection.execute("UPDATE entry SET actor = 'x' WHERE idx = 11")
    code, _, err = run("tail", "--home", str(home))
    assert code == 1
    assert err.startswith("entry 11 (contribution.accepted): leaf should be ")
