"""Commands that act say in JSON what was done, by which entries, and whom it reaches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from fleetledger import command_line
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.runtime import command_output
from tests.docs.command_schemas import schema_of

WORKING = (
    "coordinator admit cam-1",
    "coordinator admit cam-2",
    "model hold",
    "device tag cam-1 a=b",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    done = run(home, "coordinator init --trial --fleet birds")
    assert done.exit_code == 0
    return home


def run(home: Path, line: str) -> Any:
    return CliRunner().invoke(command_line.app, [*line.split(), "--home", str(home)])


def acted(home: Path, line: str) -> dict[str, Any]:
    done = run(home, f"{line} --json")
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, schema_of(" ".join(line.split()[:2])))
    return found


def kinds(home: Path, entries: list[int]) -> list[str]:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        return [ledger.entry(index).kind for index in entries]


def test_each_names_the_entries_that_it_made(home: Path) -> None:
    told = [kinds(home, acted(home, line)["entries"]) for line in WORKING]
    assert told == [["device.admitted"], ["device.admitted"], ["model.held"], ["device.tagged"]]
    assert acted(home, "coordinator admit cam-1")["entries"] == []


@pytest.mark.parametrize(
    ("line", "wrote", "made"),
    [
        ("coordinator broker-config --out broker", ["broker"], []),
        ("coordinator enrol cam-1", [], ["device.admitted", "device.invited"]),
        ("dashboard link Ada", [], []),
        ("dashboard token grafana", [], []),
        ("ledger export copy", ["copy"], []),
        ("ledger explore --out told.json", ["told.json"], []),
    ],
)
def test_what_is_made_beside_the_ledger_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, line: str, wrote: list[str], made: list[str]
) -> None:
    monkeypatch.chdir(home.parent)
    run(home, "coordinator admit cam-0")
    found = acted(home, line)
    assert found["wrote"] == wrote
    assert all(Path(path).exists() for path in wrote)
    assert kinds(home, found["entries"]) == made
    assert (found["secret"] is None) == (line.split()[1] not in {"enrol", "link", "token"})


def test_a_fleet_that_is_made_names_all_files(tmp_path: Path) -> None:
    found = acted(tmp_path / "home", "coordinator init --fleet birds")
    assert {Path(path).name for path in found["wrote"]} >= {"coordinator.toml", "root.pem"}
    assert all(Path(path).exists() for path in found["wrote"])
    assert kinds(tmp_path / "home", found["entries"]) == ["root.published"]


def test_kits_are_named_with_the_entries_that_admit_their_devices(tmp_path: Path) -> None:
    run(tmp_path / "home", "coordinator init --fleet birds")
    table = tmp_path / "table.csv"
    table.write_text("name,site\ncam-1,hazel\ncam-2,hazel\n")
    found = acted(tmp_path / "home", f"coordinator provision {table} --out {tmp_path / 'kits'}")
    assert sum(path.endswith(("cam-1", "cam-2")) for path in found["wrote"]) == 2
    told = kinds(tmp_path / "home", found["entries"])
    assert (told.count("device.admitted"), told.count("device.tagged")) == (2, 1)


def test_tokens_are_listed_without_what_they_are(home: Path) -> None:
    secret = acted(home, "dashboard token grafana --role operator")["secret"]
    listed = run(home, "dashboard token --list --json").stdout
    found = json.loads(listed)
    jsonschema.validate(found, schema_of("dashboard token --list"))
    assert [(row["name"], row["role"]) for row in found["tokens"]] == [("grafana", "operator")]
    assert secret not in listed


def test_several_devices_are_one_report_with_what_was_refused(home: Path) -> None:
    for line in WORKING[:2]:
        run(home, line)
    found = acted(home, "device retire cam-1 cam-2 --yes")
    assert kinds(home, found["entries"]) == ["device.retired", "device.retired"]
    assert [f"--home {home}`" in text for text in found["said"]] == [True, True]
    assert found["followed"]
    assert found["refused"] == []
    (refused,) = acted(home, "device retire cam-9")["refused"]
    assert "cam-9" in refused
    assert run(home, "device retire cam-9 --json").exit_code == 1


def test_a_question_leaves_standard_output_to_the_json(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in WORKING[:2]:
        run(home, line)

    class Terminal:
        class stdin:  # noqa: N801 - as in the module sys
            isatty = staticmethod(lambda: True)

    monkeypatch.setattr(command_output, "sys", Terminal)
    words = ["device", "retire", "cam-1", "cam-2", "--json", "--home", str(home)]
    done = CliRunner().invoke(command_line.app, words, input="y\n")
    answered = done.stdout.partition("y\n")[2]  # the runner repeats what was typed
    assert len(json.loads(answered)["entries"]) == 2
    assert "Retire 2 devices" in done.stderr
