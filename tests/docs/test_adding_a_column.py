"""The page on adding a column, followed literally on a copy of the repository."""

import json
from pathlib import Path

import pytest

from tests.docs.following import copy_repository, follow, run
from tests.test_architecture import ROOT

PAGE = ROOT / "docs" / "adding-a-column.md"
SHOW = """
import sys
from fleetledger.coordinator.reports.answers import (
    CoordinatorRun, FleetDevice, FleetNow, LedgerNow, ModelsNow
)
from fleetledger.runtime.command_output import show

known = {"state": "online", "admitted_index": 0, "contributions": 0, "samples": 0}
show(
    FleetNow(
        fleet="mill",
        time=10**18,
        coordinator=CoordinatorRun(running=True),
        ledger=LedgerNow(size=1),
        needs=(),
        devices=(FleetDevice(name="cam-1", agent_version="0.1.0", **known),),
        models=ModelsNow(),
    ),
    as_json=sys.argv[1] == "json",
)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which the page has been followed."""
    copy = copy_repository(tmp_path_factory.mktemp("copy"))
    files = [str(path.relative_to(copy)) for path in follow(PAGE, copy)]
    assert files == ["coordinator/reports/answers.py"]
    (copy / "show.py").write_text(SHOW)
    return copy


def test_the_table_has_the_column_and_json_is_what_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETLEDGER_OUTPUT", "table")

    table = run(root, "show", "table")

    head, cells = (
        [cell.strip() for cell in line.split(line.strip()[0]) if cell.strip()]
        for line in table.splitlines()
        if "last seen" in line or "cam-1" in line
    )
    assert head[-2:] == ["program", "trouble"]
    assert cells[0] == "cam-1"
    assert cells[-1] == "0.1.0"
    assert json.loads(run(root, "show", "json"))["devices"][0]["agent_version"] == "0.1.0"
