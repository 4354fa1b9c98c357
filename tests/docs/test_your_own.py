"""The method of docs/your-own.md, as it stands there, in a fleet."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fleetledger as fl
from fleetledger.runtime.registry import MODULES_VARIABLE
from tests.simulator.unrendered import without_pictures
from tests.test_architecture import ROOT

PAGE = (ROOT / "docs" / "your-own.md").read_text(encoding="utf-8")


@pytest.mark.torch
def test_server_momentum_runs_and_moves_the_model(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "momentum.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "momentum.py"],
        cwd=tmp_path,
        env=without_pictures(ROOT / "src"),
        capture_output=True,
        text=True,
        check=True,
    )
    without, with_it = re.findall(r"beta (?:0.0|0.5): ([0-9.]+) %", done.stdout)
    assert float(with_it) > float(without) > 10


def test_every_decorator_stands_in_the_table_with_its_group() -> None:
    rows = re.findall(r"`fl\.(\w+)\(\"name\"\)` \| `(fleetledger\.\w+)`", PAGE)
    decorators = {name for name in fl.__all__ if "Register" in (getattr(fl, name).__doc__ or "")}
    assert {name for name, _ in rows} == decorators


def test_the_variable_of_modules_is_the_one_that_is_read() -> None:
    assert f"`{MODULES_VARIABLE}`" in PAGE
