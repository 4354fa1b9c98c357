"""The agent as a process over a real Mosquitto: killed outright, started again, stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleetledger.device_agent.cli.doctor import examine
from fleetledger.device_agent.home.status_file import Status, read_status
from fleetledger.device_agent.models.probation import MAX_COUNT, PROBATION_FILE, CountFile
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.presence import Birth, Death
from fleetledger.schemas.reports import Evaluation
from tests.device_agent import model_files as models
from tests.device_agent.agent_process import PATIENCE, ROOT, AgentProcess
from tests.device_agent.scripted import (
    ScriptedCoordinator,
    eventually,
    greet,
    stsa_assignment,
    welcome_until,
)

pytestmark = pytest.mark.broker


def test_an_agent_that_is_killed_gives_the_same_again_and_stops_cleanly(
    process_coordinator: ScriptedCoordinator, process_home: Path
) -> None:
    agent = AgentProcess(process_home)
    greet(process_coordinator)
    process_coordinator.assign(stsa_assignment()[0])
    body, _ = process_coordinator.wait_for(Contribution)
    agent.end(signal.SIGKILL)
    process_coordinator.forget_runs()

    agent = AgentProcess(process_home)
    again, envelope = welcome_until(process_coordinator, Contribution)
    assert again == body
    process_coordinator.accept(envelope)
    model = models.exported(1)
    desired = models.desired_of(model.manifest, model)
    process_coordinator.desire(desired, model.manifest.canonical_bytes(), *model.files.values())
    assert process_coordinator.wait_for(ModelStatus)[0].state == "active"
    assert process_coordinator.wait_for(Evaluation)[0].results["dark"].correct == 1

    def status() -> Status | None:
        return read_status(process_home / "status.json")

    eventually(lambda: (found := status()) is not None and found.active_version == 1)
    found = status()
    assert found is not None
    assert found.process == agent.process.pid, "the command line made way for the agent"
    assert found.parts == {"accepted": 1}
    agent.process.send_signal(signal.SIGUSR1)
    process_coordinator.wait_for(Evaluation)
    assert agent.end(signal.SIGTERM) == 0
    assert process_coordinator.wait_for(Death)[0].reason == "stopped"


def test_a_model_with_which_the_agent_dies_is_gone_back_from_at_the_third_start(
    process_coordinator: ScriptedCoordinator, process_home: Path
) -> None:
    agent = AgentProcess(process_home)
    greet(process_coordinator)
    for version, action in ((1, 7), (2, 8)):
        model = models.exported(version, flipped=version == 2)
        desired = models.desired_of(model.manifest, model, action)
        process_coordinator.desire(desired, model.manifest.canonical_bytes(), *model.files.values())
        assert process_coordinator.wait_for(ModelStatus)[0].state == "active"
    count = CountFile(process_home / "state" / "slots" / PROBATION_FILE)
    for deaths in range(MAX_COUNT - 1):
        # The model has the agent die as soon as it runs.
        eventually(lambda deaths=deaths: (found := count.read()) and found.count == deaths)
        agent.end(signal.SIGKILL)
        agent = AgentProcess(process_home)
    eventually(lambda: (found := count.read()) and found.count == MAX_COUNT - 1)
    agent.end(signal.SIGKILL)
    # Births of those who died in between are not to be welcomed.
    process_coordinator.wait_for(Death, lambda body: body.reason != "stopped")
    while process_coordinator.arrived:
        process_coordinator.arrived.clear()
        process_coordinator.look(0.2)

    agent = AgentProcess(process_home)
    greet(process_coordinator)
    status, _ = process_coordinator.wait_for(ModelStatus, lambda body: body.state == "rolled_back")
    assert status.version == 2
    assert "started 3 times since it switched to this model" in status.reason
    eventually(
        lambda: (found := read_status(process_home / "status.json")) and found.active_version == 1
    )
    assert agent.end(signal.SIGTERM) == 0
    assert b"Traceback" not in (process_home / "log").read_bytes()


def test_two_agents_in_one_home_do_not_run(
    process_coordinator: ScriptedCoordinator, process_home: Path
) -> None:
    agent = AgentProcess(process_home)
    process_coordinator.be_born()
    process_coordinator.wait_for(Birth)
    other = AgentProcess(process_home)
    assert other.process.wait(PATIENCE) == 1
    assert b"another agent runs here" in (process_home / "log").read_bytes()
    assert agent.end(signal.SIGINT) == 0


def test_settings_that_cannot_be_read_end_the_agent_with_a_sentence(process_home: Path) -> None:
    (process_home / "agent.toml").write_text("device = 7\n")
    done = subprocess.run(
        [sys.executable, "-m", "fleetledger.device_agent", str(process_home)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert "agent.toml: device: 7" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor_logs_in_without_disturbing_a_running_agent(
    process_coordinator: ScriptedCoordinator, process_home: Path
) -> None:
    agent = AgentProcess(process_home)
    process_coordinator.be_born()
    process_coordinator.wait_for(Birth)
    (found,) = [item for item in examine(process_home) if item.about.startswith("broker")]
    assert (found.verdict, found.text) == ("ok", "lets 'dev-a' in")
    agent.end(signal.SIGTERM)
    assert [item.header.kind for item in process_coordinator.arrived].count("birth") <= 2
    assert process_coordinator.wait_for(Death)[0].reason == "stopped", (
        "no connection was taken over"
    )


def test_the_doctor_tells_a_wrong_password(process_home: Path) -> None:
    (process_home / "secret").write_text("guessed-password\n")
    (found,) = [item for item in examine(process_home) if item.about.startswith("broker")]
    assert found.verdict == "missing"
    assert "refuse" in found.text
    assert "guessed-password" not in found.text
