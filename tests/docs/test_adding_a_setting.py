"""The page on adding a setting of the agent, followed literally on a copy of the repository."""

from pathlib import Path

import pytest

from tests.docs.following import copy_repository, follow, run
from tests.test_architecture import ROOT

PAGE = ROOT / "docs" / "adding-a-setting.md"
AGENT = ("fleetledger", "agent")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which the page has been followed."""
    copy = copy_repository(tmp_path_factory.mktemp("copy"), "tests/docs")
    files = [str(path.relative_to(copy)) for path in follow(PAGE, copy)]
    assert files == ["device_agent/settings.py"]
    return copy


def test_a_new_settings_file_says_it_with_its_comment_and_default(
    root: Path, tmp_path: Path
) -> None:
    run(root, *AGENT, "init", "--device", "cam", "--fleet", "mill", "--home", str(tmp_path / "a"))
    lines = (tmp_path / "a" / "agent.toml").read_text().splitlines()
    place = lines.index("smallest_bytes = 0")
    assert lines[place - 1] == (
        "# Least bytes of a file that counts as a sample: docs/agent.md#the-data-folder."
    )


def test_a_wrong_value_is_refused_with_its_bounds(root: Path, tmp_path: Path) -> None:
    run(root, *AGENT, "init", "--device", "cam", "--fleet", "mill", "--home", str(tmp_path / "a"))
    file = tmp_path / "a" / "agent.toml"
    file.write_text(file.read_text().replace("smallest_bytes = 0", "smallest_bytes = -1"))
    with pytest.raises(AssertionError, match=r"data\.smallest_bytes: -1: must be greater"):
        run(root, *AGENT, "status", "--home", str(tmp_path / "a"))


def test_the_table_in_the_docs_has_it(root: Path) -> None:
    run(root, "tests.docs.tables")
    row = (
        "| `[data] smallest_bytes` | integer ≥ 0, ≤ 1000000 | `0` | Least bytes of a file that "
        "counts as a sample: [the data folder](#the-data-folder). |"
    )
    assert row in (root / "docs" / "agent.md").read_text()
