"""Exit codes come from one table, which the page about commands repeats."""

from __future__ import annotations

import ast
from pathlib import Path

from fleetledger.runtime.exit_codes import ExitCode
from tests.rooms import ROOMS
from tests.test_architecture import ROOT

STANDS_ALONE = ROOT / "schemas" / "bundle_installer.py"
"""A file that is copied to devices by itself."""


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = "".join(f"| {code.value} | {code.meaning} |\n" for code in ExitCode)
    assert f"| exit code | means |\n| --- | --- |\n{rows}" in page


def test_no_command_ends_with_a_number_of_its_own() -> None:
    files = [path for name in ROOMS for path in (ROOT / name).rglob("*.py")]
    files += ROOT.glob("*.py")
    found = {f"{path.relative_to(ROOT)}:{line}" for path in files for line in _numbered_ends(path)}
    assert not found


def test_whatever_asks_asks_in_one_way() -> None:
    """A command that asked by itself would hang, or end with 1, where nobody can be asked."""
    files = [path for name in ROOMS for path in (ROOT / name).rglob("*.py")]
    asking = {path for path in files if "typer.confirm(" in path.read_text(encoding="utf-8")}
    assert asking == {ROOT / "runtime" / "command_output.py"}


def _numbered_ends(path: Path) -> list[int]:
    text = path.read_text(encoding="utf-8")
    if path == STANDS_ALONE or ("Exit(" not in text and "exit(" not in text):
        return []
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"typer.Exit", "sys.exit"}
        and any(isinstance(a, ast.Constant) and isinstance(a.value, int) for a in node.args)
    ]
