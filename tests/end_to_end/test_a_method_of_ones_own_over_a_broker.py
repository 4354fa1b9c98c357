"""A fleet learns with a distribution that some devices lack: Mosquitto, and programs of it all."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.simulator.engines.mqtt.processes import fleetledger_command
from fleetledger.transport.brokers import MosquittoBroker
from tests import my_lab
from tests.end_to_end.process_fleet import DIGITS_PREPROCESSING, put_digits
from tests.end_to_end.training_fleet import TrainingFleet, running

pytest.importorskip("sklearn.datasets")
pytestmark = [pytest.mark.torch, pytest.mark.broker, pytest.mark.timeout(600)]

HAS, LACKS = "dev-a", "dev-b"
WAY = (
    "method 'fedreg' and network 'lab_mlp' are of my-lab 0.1, which is not installed here; "
    "install it (pip install my-lab==0.1) and "
)


class Fleet(TrainingFleet):
    """Two devices, of which one has the distribution."""

    devices = (HAS, LACKS)
    settings = """\
[method]
name = "fedreg"

[method.settings]
network = "lab_mlp"
epochs = 1

[rounds]
per_stage = 1
retention = "all"
deadline_seconds = 90
"""

    def program(self, *arguments: str, code: int = 0) -> str:
        """Run a command of the operator in a process of its own; return all that it says."""
        command = fleetledger_command(*arguments, "--home", str(self.home))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def import_by_a_program(self) -> None:
        described = self.folder / "digits.toml"
        described.write_text(DIGITS_PREPROCESSING, encoding="utf-8")
        self.program("model", "import-network", "--preprocessing", str(described))

    def told(self, device: str) -> str:
        return self.status(device).training

    def cohort(self, number: int) -> tuple[str, ...]:
        opened = self.opened(number)
        return () if opened is None else opened.cohort


@contextmanager
def found_in(folder: Path) -> Iterator[None]:
    """Let programs that start meanwhile find distributions in a folder."""
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    with mock.patch.dict(os.environ, PYTHONPATH=paths):
        yield


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory, mosquitto: MosquittoBroker) -> Iterator[Fleet]:
    with running(Fleet, tmp_path_factory, mosquitto) as made:
        made.make_homes()
        put_digits(made.folder, made.devices)
        yield made


def test_a_device_without_it_says_what_to_install_and_learns_once_it_is(
    fleet: Fleet, tmp_path: Path
) -> None:
    site = my_lab.lay(tmp_path / "site")
    fleet.start_agent(LACKS)
    with found_in(site):
        fleet.start_coordinator()
        fleet.start_agent(HAS)
        fleet.until_there(2)
        fleet.import_by_a_program()
    ((_, imported),) = fleet.entries(NetworkImported)
    assert [(one.kind, one.name, one.whose) for one in imported.requires] == [
        ("method", "fedreg", "my-lab 0.1"),
        ("network", "lab_mlp", "my-lab 0.1"),
    ]

    fleet.open_stage("01")
    fleet.until(lambda: fleet.status(LACKS).active_version == 1)
    assert fleet.cohort(1) == (HAS,)  # which nobody waits for
    fleet.until(lambda: fleet.told(LACKS).startswith(f"never asked: {WAY}restart the agent"))
    assert f"{WAY}restart the agent" in fleet.said(LACKS)
    assert "Traceback" not in fleet.said(LACKS)
    doctor = fleet.run("agent", "doctor", "--home", str(fleet.folder / LACKS), code=1)
    assert f"MISSING method fedreg: {WAY}restart the agent" in doctor
    assert "-> pip install my-lab==0.1\n" in doctor
    needs = fleet.operator("coordinator", "status", code=4)
    assert (
        "NOW    dev-b lacks my-lab 0.1, which method 'fedreg' and network 'lab_mlp' are of: "
        "nothing waits for it."
    ) in needs
    assert "a problem with distribution" not in needs

    fleet.stop(LACKS)
    with found_in(my_lab.lay(tmp_path / "other", after="# mended\n")):
        fleet.start_agent(LACKS)
    fleet.until(lambda: "my-lab 0.1 here has other code (" in fleet.told(LACKS))
    assert "; install the fleet's (pip install my-lab==0.1) and restart" in fleet.told(LACKS)
    fleet.until(
        lambda: (
            "dev-b has other code of my-lab 0.1" in fleet.operator("coordinator", "status", code=4)
        )
    )

    fleet.stop(LACKS)
    with found_in(site):
        fleet.start_agent(LACKS)
    fleet.until(lambda: "waits for a round" in fleet.told(LACKS))
    fleet.open_stage("23")
    fleet.until(lambda: fleet.cohort(2) == (HAS, LACKS))
    fleet.until(lambda: set(fleet.answers(2)) == {HAS, LACKS})
    fleet.until(lambda: all(fleet.status(name).active_version == 2 for name in fleet.devices))
    assert "my-lab" not in fleet.operator("coordinator", "status")

    made_again = fleet.operator("ledger", "replay", code=1)  # this process is without it, too
    assert f"cannot be made again\t{WAY}replay again" in made_again


def test_a_coordinator_without_it_says_what_to_install(fleet: Fleet, tmp_path: Path) -> None:
    said = fleet.program("model", "import-network", "--preprocessing", "none.toml", code=1)
    assert "method: 'fedreg' is unknown; the methods are " in said
    with found_in(my_lab.lay(tmp_path / "site")):
        fleet.import_by_a_program()
    said = fleet.program("coordinator", "serve", code=1)
    assert f"fleetledger: {WAY}start the coordinator again" in said
    assert "Traceback" not in said
    assert "Method 'fedreg' is of my-lab 0.1." in fleet.shown(NetworkImported)
    assert "fit" in fleet.operator("ledger", "verify")
    assert "No coordinator runs" in fleet.operator("coordinator", "status", code=3)
