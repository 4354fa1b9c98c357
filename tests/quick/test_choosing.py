"""What `make quick` takes for changed, and for near to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.quick.choosing import NEAR, OF_PAGES, changed_files, importers, near

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with `old` on main, `new` on a branch, and two files not committed."""
    git(tmp_path, "init", "-q", "-b", "main")
    for name in ("older", "old"):
        commit(tmp_path, name)
    git(tmp_path, "checkout", "-q", "-b", "branch")
    commit(tmp_path, "new")
    (tmp_path / "old").write_text("edited")
    (tmp_path / "unknown").write_text("")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True)


def commit(folder: Path, name: str) -> None:
    (folder / name).write_text("")
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", name)


def test_on_a_branch_what_came_since_main_and_is_not_committed_has_changed(checkout: Path) -> None:
    assert changed_files(checkout) == ["new", "old", "unknown"]


def test_on_main_the_last_commit_counts_too(checkout: Path) -> None:
    git(checkout, "stash", "-q")
    git(checkout, "checkout", "-q", "main")
    assert changed_files(checkout) == ["old", "unknown"]


def test_another_revision_can_be_named(checkout: Path) -> None:
    assert changed_files(checkout, "HEAD") == ["old", "unknown"]
    with pytest.raises(subprocess.CalledProcessError):
        changed_files(checkout, "nowhere")


IMPORTERS = {
    "room.core": frozenset({"room.shell", "tests.room.test_core"}),
    "room.shell": frozenset({"room.far", "tests.other.test_room", "tests.room.test_shell"}),
    "room.far": frozenset({"tests.far.test_far", "tests.far.making"}),
    "tests.far.making": frozenset({"tests.far.test_farther"}),
    "room": frozenset({"tests.room.test_data"}),
}


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    modules = {name for by in IMPORTERS.values() for name in by if ".test_" in name}
    for path in (*(f"{name.replace('.', '/')}.py" for name in modules), *OF_PAGES):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    return tmp_path


def chosen(root: Path, *changed: str) -> list[str]:
    names = {name: frozenset() for group in IMPORTERS.values() for name in group}
    return [item.path for item in near(root, changed, names | IMPORTERS)]


def test_the_nearest_come_first_and_of_those_the_ones_that_mirror_the_change(tests: Path) -> None:
    assert NEAR == 3
    assert chosen(tests, "room/core.py") == [
        "tests/room/test_core.py",
        "tests/room/test_shell.py",
        "tests/other/test_room.py",
        "tests/far/test_far.py",
    ]


def test_a_changed_test_is_nearest_of_all(tests: Path) -> None:
    assert chosen(tests, "room/core.py", "tests/far/test_far.py")[0] == "tests/far/test_far.py"


def test_data_belong_to_their_package_and_to_the_tests_that_name_them(tests: Path) -> None:
    (tests / "tests/other/test_room.py").write_text('DATA = "data.toml"\n')
    assert chosen(tests, "room/data.toml") == [
        "tests/room/test_data.py",
        "tests/other/test_room.py",
    ]


def test_a_page_is_near_to_the_tests_of_all_pages(tests: Path) -> None:
    assert set(chosen(tests, "docs/page.md")) == set(OF_PAGES)


def test_what_is_gone_or_strange_is_near_to_nothing(tests: Path) -> None:
    assert chosen(tests, "room/gone.py", ".gitignore") == []


def test_the_product_and_its_tests_import_each_other_as_they_say() -> None:
    found = importers(ROOT)
    assert "tests.schemas.test_values" in found["fleetledger.schemas.values"]
    assert "fleetledger.coordinator.core.state" in found["fleetledger.coordinator.core.entry"]
    assert "tests.test_door" in found["fleetledger.command_line"]
    assert "tests.chaos.test_seed_runs" in found["tests.chaos.conftest"]
