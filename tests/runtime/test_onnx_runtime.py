"""ONNX Runtime reports to nobody what a device runs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetledger.runtime.onnx_runtime import VARIABLE
from tests.test_architecture import ROOT
from tests.test_packaging import ROOMS

PROGRAM = """
import sys
from fleetledger.runtime.onnx_runtime import onnx_runtime
runtime = onnx_runtime()
runtime.get_available_providers()
with open("/proc/self/maps") as maps:
    print([line for line in maps if "onnxruntime.db" in line])
"""


def test_no_report_is_prepared(tmp_path: Path) -> None:
    """Where it reports it keeps what it will send in the user's cache."""
    pytest.importorskip("onnxruntime")
    left_out = {VARIABLE, "CI", "ORT_RUNNING_UNIT_TESTS", "XDG_CACHE_HOME", "PYTHONPATH"}
    environment = {name: text for name, text in os.environ.items() if name not in left_out}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
    assert list(tmp_path.rglob("*onnxruntime*")) == []


def test_nothing_imports_it_in_another_way() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    importing = [
        str(file.relative_to(ROOT))
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if "onnxruntime" in imported(node)
    ]
    assert importing == ["runtime/onnx_runtime.py"]


def imported(node: ast.AST) -> list[str]:
    """Return the packages that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0]]
    return []
