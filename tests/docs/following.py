"""Follows a page of the documentation: writes its files, and puts its lines where it says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.rooms import ROOMS
from tests.simulator.unrendered import without_pictures
from tests.test_architecture import ROOT

BLOCK = re.compile(
    r"^\*\*`(?P<path>[^`]+)`\*\*\n\n```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
COPIED = (*ROOMS, "src", "docs", "tests/methods")
COPIED_FILES = ("pyproject.toml", "CHANGELOG.md", "README.md", "CONTRIBUTING.md")
COPIED_TESTS = (
    "tests/__init__.py",
    "tests/conftest.py",
    "tests/rooms.py",
    "tests/test_architecture.py",
)


def copy_repository(target: Path, *further: str) -> Path:
    """Copy everything that a method touches or is tested by, and `further` folders.

    With what is compiled already, which is taken for unchanged files: else each program that runs
    in the copy would compile them all.
    """
    for folder in (*COPIED, *further):
        shutil.copytree(ROOT / folder, target / folder, symlinks=True)
    for name in (*COPIED_FILES, *COPIED_TESTS):
        shutil.copy(ROOT / name, target / name)
    return target


def follow(page: Path, root: Path) -> list[Path]:
    """Apply every block that stands under a file name, in order; return the files."""
    touched = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        path = root / block["path"]
        if block["kind"] == "diff":
            path.write_text(
                changed(path.read_text(encoding="utf-8"), block["text"]), encoding="utf-8"
            )
        else:
            assert not path.exists(), f"{path} is there already"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["text"], encoding="utf-8")
        touched.append(path)
    return touched


def changed(text: str, diff: str) -> str:
    """Put the lines that begin with a space or + where those stand that begin with a space or -."""
    lines = diff.splitlines(keepends=True)
    assert all(line[0] in " +-\n" for line in lines)
    old = "".join(line[1:] or line for line in lines if line[0] != "+")
    new = "".join(line[1:] or line for line in lines if line[0] != "-")
    assert text.count(old) == 1, f"not exactly once there: {old}"
    return text.replace(old, new)


def run(root: Path, *arguments: str) -> str:
    """Run Python's `-m` in the copy; return what it printed."""
    own = {
        "FLEETLEDGER_CACHE": str(root / "cache"),
        "COLUMNS": "100",
    }
    done = subprocess.run(
        [sys.executable, "-B", "-m", *arguments],
        cwd=root,
        env={**without_pictures(root / "src", root), **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
