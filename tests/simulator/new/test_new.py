"""`fleetledger new` writes packages that are checked, found and run as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetledger import command_line
from fleetledger.simulator.errors import NewPackageError
from fleetledger.simulator.new.package import KINDS, Kind, PackageName, write_package
from fleetledger.transport.brokers import find_mosquitto
from tests.docs.test_notebooks import APPLICATION, run_notebook
from tests.rooms import ROOT
from tests.simulator.unrendered import without_pictures

RULES = "E,F,I,B,UP,D,ANN,SIM,RET,PTH,PT"
LEFT_OUT = "D102,D103,D107,D203,D213"
"""Tests and what overrides have no docstring; the others are the other layout of docstrings."""
TYPES = """\
[mypy]
strict = true
follow_imports = silent
ignore_missing_imports = true
disallow_subclassing_any = false

[mypy-torch.*]
follow_imports = skip
"""
"""Without torch, which has types and takes a minute to read."""
BY_DAY = [
    pytest.param("method", marks=pytest.mark.torch),
    pytest.param("network", marks=[pytest.mark.torch, pytest.mark.nightly]),
    pytest.param("dataset", marks=pytest.mark.nightly),
    pytest.param("app", marks=pytest.mark.nightly),
]


def written(folder: Path, kind: Kind) -> Path:
    """Write a package, and lay beside it what an editable install makes findable."""
    package = folder / "its-folder"
    write_package(PackageName(kind, f"my-{kind}"), package)
    run(
        package,
        *("-c", "from setuptools import build_meta as b; b.prepare_metadata_for_build_wheel('.')"),
    )
    assert (package / f"my_{kind}-0.1.0.dist-info" / "entry_points.txt").is_file()
    return package


def run(package: Path, *words: str) -> str:
    """Run Python in a package's folder, where it is found, and return what it says."""
    told = {
        **without_pictures(package, ROOT / "src", ROOT),
        "FLEETLEDGER_CACHE": str(package.parent / "cache"),
    }
    done = subprocess.run(
        [sys.executable, *words], cwd=package, env=told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", BY_DAY)
def test_its_test_passes_and_its_scenario_runs(kind: Kind, tmp_path: Path) -> None:
    package = written(tmp_path, kind)
    said = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".")
    assert "2 passed" in said
    tiny = ("--tiny", "--out", "run")
    run(package, "-m", "fleetledger", "simulate", "scenario.toml", *tiny)
    assert (package / "run" / "report.html").is_file()


@pytest.mark.parametrize("kind", KINDS)
def test_its_layout_is_the_one_of_ruff(kind: Kind, tmp_path: Path) -> None:
    write_package(PackageName(kind, f"my-{kind}"), package := tmp_path / "package")
    for words in (("check", "--select", RULES, "--ignore", LEFT_OUT), ("format", "--check")):
        run(package, "-m", "ruff", *words, "--isolated", "--line-length", "100", ".")


@pytest.mark.slow
@pytest.mark.nightly
def test_types_hold(tmp_path: Path) -> None:
    for kind in KINDS:
        write_package(PackageName(kind, f"my-{kind}"), package := tmp_path / kind)
        for path in package.glob("*.py"):
            path.rename(tmp_path / path.name)
    (tmp_path / "mypy.ini").write_text(TYPES)
    run(
        tmp_path,
        "-m",
        "mypy",
        "--cache-dir",
        str(tmp_path / "cache"),
        *map(str, tmp_path.glob("*.py")),
    )


def test_its_readme_shows_the_commands_that_the_command_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command_line.app, ["new", "method", "my-method"])
    assert done.exit_code == 0, done.output
    told = [line.strip() for line in done.stdout.splitlines() if line.startswith("    ")]
    assert told[0] == "cd my-method"
    readme = (tmp_path / "my-method" / "README.md").read_text()
    assert all(f"    {line}" in readme for line in told[1:])


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("method", "My Method", "'My Method' is no name; give up to 64 of a-z"),
        ("method", "1st", "'1st' is no name"),
        ("method", "mine-", "'mine-' is no name"),
        ("method", "a" * 65, "is no name"),
        ("method", "class", "'class' is a word of Python .* such as my-class"),
        ("method", "json", "'json' is a word of Python or a module that comes with it"),
        ("method", "numpy", "a module 'numpy' can be imported here already"),
        ("method", "stsa", "'stsa' is a method that is there already; .* my-stsa"),
        ("network", "mlp", "'mlp' is a network that is there already"),
        ("dataset", "digits", "'digits' is a data set that is there already"),
        ("app", "patterns", "'patterns' is a data set that is there already"),
    ],
)
def test_a_name_that_cannot_be_is_refused(kind: Kind, name: str, said: str) -> None:
    with pytest.raises(NewPackageError, match=rf"name: .*{said}"):
        PackageName(kind, name)


def test_a_folder_that_is_there_is_never_written_to(tmp_path: Path) -> None:
    with pytest.raises(NewPackageError, match=r"out: .* is there already, .*give another"):
        write_package(PackageName("method", "my-method"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NewPackageError, match=r"out: .* cannot be written: Not a directory"):
        write_package(PackageName("method", "my-method"), tmp_path / "file" / "package")


@pytest.mark.slow
@pytest.mark.nightly  # the notebook of an application does the same by day
@pytest.mark.broker
@pytest.mark.skipif(find_mosquitto() is None, reason="needs mosquitto on the PATH")
def test_an_application_learns_in_a_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both of its programs run in the fleet that the notebook sets up."""
    package, fleet = written(tmp_path, "app"), tmp_path / "fleet"
    fleet.mkdir()
    names: dict[str, Any] = {}
    begun = []
    try:
        run_notebook(APPLICATION, fleet, monkeypatch, names, until="fl.Agent(")
        call = "import my_app, sys; getattr(my_app, sys.argv.pop(1))()"
        words = (sys.executable, "-c", call)
        told = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (package, ROOT / "src")))}
        for more in (("on_device", "camera-1", "1"), ("lead", "coordinator-home")):
            begun.append(subprocess.Popen([*words, *more], env=told, stdout=subprocess.PIPE))
        device, leader = (each.communicate(timeout=300)[0].decode() for each in begun)
    finally:
        for each in (*begun, *names.get("programs", ())):
            each.kill()
            each.wait()
    assert leader == "model 1 knows bar, cross, frame, square\n"
    first, second = device.splitlines()
    assert first == "120 new pictures"
    assert int(second.partition("%")[0]) > 60
