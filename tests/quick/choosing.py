"""Which test files are near to what changed, by who imports whom."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import grimp

from tests.rooms import FLEETLEDGER, ROOMS

PACKAGES = ("benchmarks", "tests", FLEETLEDGER)
CACHE = ".import_linter_cache"
NEAR = 3
"""A test that imports what imports what imports a changed file is still near to it."""
OF_PAGES = ("tests/test_docs.py", "tests/docs/test_text.py")
"""What reads every page."""

Importers = Mapping[str, frozenset[str]]
"""By module, the modules that import it."""


@dataclass(frozen=True, order=True)
class Near:
    """A test file, and how many imports it is away from a changed file; the nearest sorts first."""

    distance: int
    strange: bool
    """It is in no folder that mirrors one of the changed files."""
    path: str


def changed_files(root: Path, since: str = "") -> list[str]:
    """Return the paths that differ from the revision `since`, those not yet committed among them.

    Without `since` it is where the branch left `main`, and on `main` the commit before the last.

    Raises subprocess.CalledProcessError if git does not know the revision.
    """
    since = since or _start(root)
    differing = _git(root, "diff", "--name-only", since)
    unknown = _git(root, "ls-files", "--others", "--exclude-standard")
    return sorted({*differing.splitlines(), *unknown.splitlines()})


def importers(root: Path) -> Importers:
    """Return who imports whom in the checkout `root`, from which Python imports its packages.

    A test imports the `conftest.py` of its folder and of those above too, but for the topmost.
    """
    graph = grimp.build_graph(
        PACKAGES[0], *PACKAGES[1:], include_external_packages=True, cache_dir=str(root / CACHE)
    )
    found = {name: set(graph.find_modules_that_directly_import(name)) for name in graph.modules}
    for name in graph.modules:
        if is_test(name):
            for conftest in _conftests(name):
                if conftest in found:
                    found[conftest].add(name)
    return {name: frozenset(by) for name, by in found.items()}


def near(root: Path, changed: Iterable[str], importers: Importers) -> list[Near]:
    """Return the test files within `NEAR` imports of the paths `changed`, the nearest first."""
    changed = list(changed)
    distances = _distances(_modules(root, changed, importers), importers)
    found = {path_of(name): steps for name, steps in distances.items() if is_test(name)}
    for path in _naming(root, [path for path in changed if not path.endswith(".py")]):
        found[path] = 1
    if any(path.endswith(".md") for path in changed):
        found |= dict.fromkeys(OF_PAGES, 1)
    mirrored = tuple(f"tests/{Path(path).parent}/" for path in changed)
    own = tuple(f"{Path(path).parent}/" for path in changed if path.startswith("tests/"))
    return sorted(
        Near(steps, not path.startswith(mirrored + own), path)
        for path, steps in found.items()
        if (root / path).is_file()
    )


def is_test(module: str) -> bool:
    """Tell whether a module of this name holds tests."""
    return module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")


def path_of(module: str) -> str:
    """Return the path of a test's module."""
    return module.replace(".", "/") + ".py"


def _start(root: Path) -> str:
    if _git(root, "rev-parse", "--abbrev-ref", "HEAD").strip() == "main":
        return "HEAD~1"
    return _git(root, "merge-base", "HEAD", "main").strip()


def _git(root: Path, *words: str) -> str:
    command = ["git", "-c", "core.quotePath=false", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def _modules(root: Path, changed: Iterable[str], importers: Importers) -> set[str]:
    """Return the modules of the changed paths; a file that is data belongs to its package."""
    found = set()
    for path in changed:
        at = Path(path)
        parts = at.with_suffix("").parts if at.suffix == ".py" else at.parent.parts
        if parts[:1] == ("src",):
            parts = parts[1:]
        elif parts[:1] and parts[0] in ROOMS:
            parts = (FLEETLEDGER, *parts)
        name = ".".join(part for part in parts if part != "__init__")
        if name in importers:
            found.add(name)
    return found


def _distances(start: Iterable[str], importers: Importers) -> dict[str, int]:
    """Return how many imports every module is away from the nearest of `start`, up to `NEAR`."""
    found = dict.fromkeys(start, 0)
    edge = set(found)
    for steps in range(1, NEAR + 1):
        edge = {by for name in edge for by in importers.get(name, ())} - found.keys()
        found |= dict.fromkeys(edge, steps)
    return found


def _conftests(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join((*parts[:count], "conftest")) for count in range(2, len(parts))]


def _naming(root: Path, paths: Iterable[str]) -> set[str]:
    """Return the test files whose text names one of the paths, or the file alone."""
    names = {name for path in paths for name in (path, os.path.basename(path))}  # noqa: PTH119
    if not names:
        return set()
    found = set()
    for file in (root / "tests").rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        if any(f'"{name}"' in text for name in names):
            found.add(str(file.relative_to(root)))
    return found
