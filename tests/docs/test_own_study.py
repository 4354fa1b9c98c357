"""docs/examples/own_study.py: a study in one file, on every engine and from the wheel alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.coordinator.topics.stages.entries import StageClosed, StageOpened
from fleetledger.runtime.registry import MODULES_VARIABLE
from fleetledger.transport.brokers import find_mosquitto
from tests.rooms import ROOT
from tests.simulator.unrendered import without_pictures
from tests.test_packaging import copy_source

pytestmark = pytest.mark.torch
STUDY = ROOT / "docs" / "examples" / "own_study.py"
PATIENCE = 300.0
ENGINES = {
    "two workers": {"workers": 2},
    "Ray": {"kind": "ray", "workers": 2},
    "processes": {"kind": "mqtt"},
}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Agents and workers compute on one; torch's sums differ in their last bits with the number."""
Sums = list[tuple[int, str]]


def entries(home: Path, kind: type[EntryBody]) -> list[EntryBody]:
    """Return the entries of a kind in the ledger of a coordinator's home."""
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        return [read_entry(entry.kind, entry.body) for entry in ledger.find(kind)]


def sums_of(home: Path) -> Sums:
    """Return the digest of the exact sum of every round."""
    return [
        (body.number, str(body.aggregate))
        for body in entries(home, WeightsAveraged)
        if isinstance(body, WeightsAveraged)
    ]


def test_it_has_sixty_lines_at_most() -> None:
    assert STUDY.read_text(encoding="utf-8").count("\n") <= 60


def test_it_prints_matrix_forgetting_and_its_own_metric(tmp_path: Path) -> None:
    shutil.copy(STUDY, tmp_path)
    done = subprocess.run(
        [sys.executable, STUDY.name, "run"],
        cwd=tmp_path,
        env={**without_pictures(ROOT / "src"), **ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second, forgetting, worst = done.stdout.splitlines()
    assert first.startswith("[[")
    assert second.endswith("]]")
    assert -1 <= float(forgetting) <= 1
    assert 0 < float(worst) < 1
    assert [number for number, _ in sums_of(tmp_path / "run/seed-1/coordinator")] == [1, 2, 3, 4]


class Installed:
    """An environment that has the wheel and, of this one, what it depends on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source, packages = folder / "source", folder / "venv"
        source.mkdir()
        copy_source(source)
        pip = [sys.executable, "-m", "pip"]
        quiet = ["--no-deps", "--no-index", "--quiet"]
        build = ["wheel", "--no-build-isolation", *quiet, "--wheel-dir", str(folder), str(source)]
        subprocess.run([*pip, *build], check=True)
        shutil.rmtree(source)
        venv.create(packages, symlinks=True)
        self.python = packages / "bin" / "python"
        (wheel,) = folder.glob("fleetledger-*.whl")
        install = ["--python", str(self.python), "install", *quiet, "--ignore-installed"]
        subprocess.run([*pip, *install, str(wheel)], check=True)
        (place,) = (packages / "lib").glob("python*/site-packages")
        others = [path for path in sys.path if path.endswith("site-packages")]
        (place / "beneath.pth").write_text("\n".join(others))
        shutil.copy(STUDY, folder)

    def command(self, *words: str | Path) -> list[str]:
        return [str(self.python), *map(str, words)]

    def environment(self, **more: str) -> dict[str, str]:
        own = {"PYTHONPATH": "", "FLEETLEDGER_CACHE": str(self.folder / "cache")}
        return {**os.environ, **own, **ONE_THREAD, **more}

    def run(self, *words: str | Path, **more: str) -> str:
        done = subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def study(self, name: str, engine: dict[str, object]) -> Sums:
        """Run the study on an engine; return the sums of its rounds."""
        self.run(STUDY.name, name, json.dumps(engine))
        return sums_of(self.folder / name / "seed-1" / "coordinator")

    @contextmanager
    def program(self, *words: str | Path, **more: str) -> Iterator[None]:
        """Have a program of fleetledger run."""
        line = self.command("-m", "fleetledger", *words)
        child = subprocess.Popen(
            line, cwd=self.folder, env=self.environment(**more), stderr=subprocess.DEVNULL
        )
        try:
            yield
        finally:
            child.terminate()
            child.wait()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def light(installed: Installed) -> Sums:
    """The sums of light agents in one process."""
    return installed.study("light", {})


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_has_equal_sums(name: str, installed: Installed, light: Sums) -> None:
    if name == "Ray":
        pytest.importorskip("ray")
    assert len(light) == 4
    assert installed.study(name.replace(" ", "-"), ENGINES[name]) == light


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.broker
def test_a_fleet_of_three_agents_has_equal_sums(installed: Installed, light: Sums) -> None:
    """The homes are those of the run with processes; coordinator and agents begin with nothing."""
    assert installed.study("before", {"kind": "mqtt", "broker": "mosquitto"}) == light
    before, fleet = installed.folder / "before" / "seed-1", installed.folder / "fleet"
    home, known = fleet / "coordinator", {MODULES_VARIABLE: str(installed.folder / STUDY.name)}
    home.mkdir(parents=True)
    for name in ("coordinator.toml", "broker.password"):
        shutil.copy(before / "coordinator" / name, home)
    manifest = json.loads((before / "model" / "manifest.json").read_text())
    (fleet / "digits.json").write_text(json.dumps(manifest["preprocessing"]))

    def operate(*words: str | Path) -> None:
        installed.run("-m", "fleetledger", *words, "--home", home, **known)

    devices = sorted(path.name for path in (before / "agents").iterdir() if path.is_dir())
    assert len(devices) == 3
    for device in devices:
        operate("coordinator", "admit", device)
        (fleet / device).mkdir()
        for name in ("agent.toml", "broker.password"):
            shutil.copy(before / "agents" / device / name, fleet / device)
        shutil.copytree(before / "agents" / device / "data", fleet / device / "data")
    operate("model", "import-network", "--preprocessing", fleet / "digits.json")
    mosquitto = subprocess.Popen(
        [str(find_mosquitto()), "-c", str(before / "broker" / "mosquitto.conf")],
        stderr=subprocess.DEVNULL,
    )
    try:
        with installed.program("coordinator", "serve", "--home", home, **known):
            one, two, three = (
                installed.program("agent", "run", "--home", fleet / device, **known)
                for device in devices
            )
            with one, two, three:
                until(lambda: len(entries(home, DeviceBorn)) == 3)
                for number, stage in enumerate(entries(before / "coordinator", StageOpened), 1):
                    assert isinstance(stage, StageOpened)
                    operate("coordinator", "open-stage", *stage.class_names, "--yes")
                    until(lambda: len(entries(home, StageClosed)) == number)  # noqa: B023 - at once
    finally:
        mosquitto.terminate()
        mosquitto.wait()
    assert sums_of(home) == light


def until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.1)
