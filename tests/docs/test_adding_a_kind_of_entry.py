"""The page on adding a kind of ledger entry, followed literally on a copy of the repository."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from benchmarks.house.kinds import files_naming
from benchmarks.house.source import Source
from tests.coordinator.every_kind.facts import unpack
from tests.docs.following import copy_repository, follow, run
from tests.test_architecture import ROOT

PAGE = ROOT / "docs" / "adding-a-kind-of-entry.md"
FOLDER = "coordinator/topics/classes"
TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")
SESSION = re.compile(r"^\$ (?P<command>.+)\n(?P<said>(?:[^$`].*\n)*)", re.M)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A copy of the repository in which the page has been followed, and the files it names."""
    copy = tmp_path_factory.mktemp("copy")
    copy_repository(copy, "tests/coordinator", "tests/schemas", "benchmarks")
    files = [str(path.relative_to(copy)) for path in follow(PAGE, copy)]
    return copy, list(dict.fromkeys(files))


@pytest.fixture(scope="module")
def root(followed: tuple[Path, list[str]]) -> Path:
    return followed[0]


def test_the_kind_stands_in_four_files_of_one_folder(followed: tuple[Path, list[str]]) -> None:
    root, files = followed
    product = [name for name in files if name.startswith("coordinator/")]
    assert [name for name in product if not name.startswith(FOLDER)] == [
        "coordinator/reports/contributions.py",
        "coordinator/cli/classes.py",
    ]
    assert len(product) == 6
    naming = files_naming(Source.read(root), "class.described", "ClassDescribed")
    assert {name.rpartition(".")[0] for name in naming} == {FOLDER.replace("/", ".")}
    assert len(naming) == 2


def test_what_the_page_shows_is_what_a_ledger_of_before_says_then(
    root: Path, tmp_path: Path
) -> None:
    home = unpack(tmp_path)
    shutil.rmtree(home / "keys")  # the private half is not there; the coordinator makes new ones
    session = SESSION.findall(PAGE.read_text(encoding="utf-8").partition("## What comes of it")[2])
    assert len(session) == 3
    for command, expected in session:
        said = run(root, *shlex.split(command), "--home", str(home))
        assert plain(said) == plain(expected)
    shutil.rmtree(home / "keys")
    said = run(root, "fleetledger", "ledger", "verify", "--home", str(home))
    assert said.splitlines()[-1].startswith("137 entries, ")


def plain(said: str) -> list[str]:
    """Return lines without times, and without the spaces that fill a table."""
    return [TIME.sub("", line).rstrip() for line in said.splitlines()]


def test_its_own_tests_and_those_of_all_kinds_pass(root: Path) -> None:
    files = ("topics/classes/test_descriptions.py", "topics/test_topics.py", "every_kind")
    run(root, "pytest", "-p", "no:cacheprovider", *(f"tests/coordinator/{name}" for name in files))


@pytest.mark.nightly
def test_the_rules_of_the_house_hold_for_it(followed: tuple[Path, list[str]]) -> None:
    root, files = followed
    rules = "imports or docstring"
    run(root, "pytest", "-p", "no:cacheprovider", "-k", rules, "tests/test_architecture.py")
    python = [name for name in files if name.endswith(".py")]
    run(root, "ruff", "check", "--no-cache", *python)
    run(root, "ruff", "format", "--no-cache", "--check", *python)


@pytest.mark.slow
@pytest.mark.nightly
def test_its_types_hold(root: Path) -> None:
    run(root, "mypy", "--cache-dir", str(root / "types"), "-p", "coordinator")
