"""What a change costs who lives in the house: it gets no more, and the counting counts.

Where a figure has become smaller, lower it here.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from benchmarks.house.kinds import ROOT, entry_kinds, files_naming
from benchmarks.house.programs import assemblies
from benchmarks.house.shelves import arrows_up
from benchmarks.house.source import Source

MOST_FILES_OF_A_KIND = 5.1  # cohorts' kinds are followed by contributions, rounds and replay
PROGRAMS = ["coordinator.assembly", "device_agent.program.assembly"]

FORMER = {
    "fleetledger.py": "",
    "pyproject.toml": "[[tool.importlinter.contracts]]\nname = 'rooms'\n",
    "coordinator/__init__.py": "",
    "coordinator/core/__init__.py": "",
    "coordinator/core/entries.py": (
        "from coordinator.core.stages import seconds\n"
        "class StageOpened(EntryBody):\n    kind: ClassVar[str] = 'stage.opened'\n"
    ),
    "coordinator/core/stages.py": "from coordinator.core.entries import StageOpened\n",
    "coordinator/projections.py": 'KINDS = ("stage.opened", "stage.opened.late")\n',
    "coordinator/shell.py": "class Shell: ...\n",
    "coordinator/serve.py": "from coordinator.shell import Shell\nShell()\n",
    "device_agent/__init__.py": "",
    "tests/__init__.py": "StageOpened\n",
}


@pytest.fixture(scope="module")
def product() -> Source:
    return Source.read(ROOT)


@pytest.fixture
def former(tmp_path: Path) -> Source:
    """A house of a few files, which says some things twice."""
    for name, text in FORMER.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Source.read(tmp_path)


def test_few_files_name_a_kind_of_entry(product: Source) -> None:
    counts = [len(files_naming(product, kind, name)) for kind, name in entry_kinds(product).items()]
    assert statistics.mean(counts) <= MOST_FILES_OF_A_KIND


def test_no_import_of_the_coordinator_runs_back_up(product: Source) -> None:
    assert arrows_up(product) == []


def test_a_program_is_put_together_in_one_place(product: Source) -> None:
    assert assemblies(product) == PROGRAMS


def test_a_kind_is_named_by_its_class_and_by_its_text(former: Source) -> None:
    assert entry_kinds(former) == {"stage.opened": "StageOpened"}
    assert files_naming(former, "stage.opened", "StageOpened") == [
        "coordinator.core.entries",
        "coordinator.core.stages",
        "coordinator.projections",
    ]


def test_an_import_from_a_higher_shelf_is_found_by_names_and_by_the_rules(
    former: Source, tmp_path: Path
) -> None:
    down = ("coordinator.core.entries", "coordinator.core.stages")
    assert arrows_up(former) == [down]
    layers = "layers = ['coordinator.core.entries', 'coordinator.core.stages : coordinator.shell']"
    (tmp_path / "pyproject.toml").write_text(f"{FORMER['pyproject.toml']}{layers}\n")
    assert arrows_up(former) == [down[::-1]]


def test_who_puts_a_program_together_is_found(former: Source) -> None:
    assert assemblies(former) == ["coordinator.serve"]
