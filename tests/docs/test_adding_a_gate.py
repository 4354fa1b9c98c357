"""The page on adding a gate, followed literally on a copy of the repository."""

from pathlib import Path

import pytest

from tests.docs.following import copy_repository, follow, run
from tests.test_architecture import ROOT

PAGE = ROOT / "docs" / "adding-a-gate.md"
FOLDER = "coordinator/topics/rollouts"
ASK = """
from typer.testing import CliRunner
from fleetledger.command_line import app
print(CliRunner().invoke(app, ["rollout", "plan", "1", "--gate", "none=1"]).exception)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which the page has been followed."""
    copy = copy_repository(
        tmp_path_factory.mktemp("copy"), "tests/coordinator", "tests/schemas", "tests/docs"
    )
    files = {str(path.relative_to(copy)) for path in follow(PAGE, copy)}
    product = {f"{FOLDER}/plan.py", f"{FOLDER}/gates.py"}
    assert files == product | {"tests/coordinator/topics/rollouts/test_coverage.py"}
    return copy


def test_its_own_test_passes_and_types_of_its_style_hold(root: Path) -> None:
    run(root, "pytest", "-p", "no:cacheprovider", f"tests/{FOLDER}/test_coverage.py")
    run(root, "ruff", "check", "--no-cache", FOLDER)
    run(root, "ruff", "format", "--no-cache", "--check", FOLDER)


def test_command_line_docs_and_schemas_show_it(root: Path) -> None:
    (root / "ask.py").write_text(ASK)
    assert ", coverage, min_devices" in run(root, "ask")
    run(root, "tests.docs.tables")
    run(root, "tests.docs.command_schemas")
    row = "| coverage | devices that compared both models | never:"
    assert row in (root / "docs" / "rollouts.md").read_text()
    assert "| `coverage` | number > 0, ≤ 1 |" in (root / "docs" / "scenarios.md").read_text()
    assert (root / "docs/json/rollout-show.schema.json").read_text().count('"coverage"') > 3
