"""The agent as a process over a real Mosquitto: killed outright, started again, stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_agent.doctor import examine
from device_agent.probation import MAX_COUNT, PROBATION_FILE, CountFile
from device_agent.status import Status, read_status
from schemas.contributions import Contribution
from schemas.models import ModelStatus
from schemas.presence import Birth, Death
from schemas.reports import Evaluation
from schemas.values import DeviceId
from tests.device_agent import models, scripted
from tests.device_agent.scripted import (
    ScriptedCoordinator,
    eventually,
    greet,
    settle,
    stsa_assignment,
)
from transport.brokers import MosquittoBroker
from transport.mqtt import MqttConnection
from transport.mqtt_settings import MqttSettings

pytestmark = pytest.mark.broker

ROOT = Path(__file__).resolve().parents[2]
DEVICE = DeviceId("dev-a")


@pytest.fixture
def coordinator(
    mosquitto: MosquittoBroker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ScriptedCoordinator]:
    monkeypatch.setattr(scripted, "DEVICE", DEVICE)
    user, password = mosquitto.credentials("coordinator")

    def connect(name: str) -> MqttConnection:
        return MqttConnection(
            MqttSettings(
                client_id=name,
                host=mosquitto.host,
                port=mosquitto.port,
                user=user,
                password=password,
            )
        )

    found = ScriptedCoordinator(connect)
    yield found
    found.die()
    found.stop()


@pytest.fixture
def home(tmp_path: Path, mosquitto: MosquittoBroker) -> Path:
    models.put_pictures(tmp_path / "data", "dark", 1, 2)
    models.put_pictures(tmp_path / "data", "light", 3)
    models.put_pictures(tmp_path / "test", "dark", 4)
    settle(tmp_path / "data")
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text(mosquitto.credentials(DEVICE)[1] + "\n")
    (tmp_path / "agent.toml").write_text(
        f'device = "{DEVICE}"\nfleet = "{scripted.FLEET}"\n'
        f'[broker]\nhost = "{mosquitto.host}"\nport = {mosquitto.port}\n'
        'password_file = "secret"\n'
        '[data]\nfolder = "data"\nevaluation_folder = "test"\nscan_seconds = 0.2\n'
        '[model]\nproviders = ["CPUExecutionProvider"]\n'
    )
    return tmp_path


class AgentProcess:
    """`fleetledger agent run` in a process of its own."""

    def __init__(self, home: Path) -> None:
        self.log = (home / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fleetledger", "agent", "run", "--home", str(home)],
            cwd=ROOT,
            stdout=self.log,
            stderr=self.log,
        )

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


def test_an_agent_that_is_killed_gives_the_same_again_and_stops_cleanly(
    coordinator: ScriptedCoordinator, home: Path
) -> None:
    agent = AgentProcess(home)
    greet(coordinator)
    coordinator.assign(stsa_assignment()[0])
    body, _ = coordinator.wait_for(Contribution)
    agent.end(signal.SIGKILL)
    coordinator.arrived.clear()

    agent = AgentProcess(home)
    greet(coordinator)
    again, envelope = coordinator.wait_for(Contribution)
    assert again == body
    coordinator.accept(envelope)
    model = models.exported(1)
    desired = models.desired_of(model.manifest, model)
    coordinator.desire(desired, model.manifest.canonical_bytes(), *model.files.values())
    assert coordinator.wait_for(ModelStatus)[0].state == "active"
    assert coordinator.wait_for(Evaluation)[0].results["dark"].correct == 1

    def status() -> Status | None:
        return read_status(home / "status.json")

    eventually(lambda: (found := status()) is not None and found.active_version == 1)
    found = status()
    assert found is not None
    assert found.process == agent.process.pid, "the command line made way for the agent"
    assert found.parts == {"accepted": 1}
    agent.process.send_signal(signal.SIGUSR1)
    coordinator.wait_for(Evaluation)
    assert agent.end(signal.SIGTERM) == 0
    assert coordinator.wait_for(Death)[0].reason == "stopped"


def test_a_model_with_which_the_agent_dies_is_gone_back_from_at_the_third_start(
    coordinator: ScriptedCoordinator, home: Path
) -> None:
    agent = AgentProcess(home)
    greet(coordinator)
    for version, action in ((1, 7), (2, 8)):
        model = models.exported(version, flipped=version == 2)
        desired = models.desired_of(model.manifest, model, action)
        coordinator.desire(desired, model.manifest.canonical_bytes(), *model.files.values())
        assert coordinator.wait_for(ModelStatus)[0].state == "active"
    count = CountFile(home / "state" / "slots" / PROBATION_FILE)
    for deaths in range(MAX_COUNT - 1):
        # The model has the agent die as soon as it runs.
        eventually(lambda deaths=deaths: (found := count.read()) and found.count == deaths)
        agent.end(signal.SIGKILL)
        agent = AgentProcess(home)
    eventually(lambda: (found := count.read()) and found.count == MAX_COUNT - 1)
    agent.end(signal.SIGKILL)
    # Births of those who died in between are not to be welcomed.
    coordinator.wait_for(Death, lambda body: body.reason != "stopped")
    while coordinator.arrived:
        coordinator.arrived.clear()
        coordinator.look(0.2)

    agent = AgentProcess(home)
    greet(coordinator)
    status, _ = coordinator.wait_for(ModelStatus, lambda body: body.state == "rolled_back")
    assert status.version == 2
    assert "started 3 times since it switched to this model" in status.reason
    eventually(lambda: (found := read_status(home / "status.json")) and found.active_version == 1)
    assert agent.end(signal.SIGTERM) == 0
    assert b"Traceback" not in (home / "log").read_bytes()


def test_two_agents_in_one_home_do_not_run(coordinator: ScriptedCoordinator, home: Path) -> None:
    agent = AgentProcess(home)
    coordinator.be_born()
    coordinator.wait_for(Birth)
    other = AgentProcess(home)
    assert other.process.wait(20) == 1
    assert b"another agent runs here" in (home / "log").read_bytes()
    assert agent.end(signal.SIGINT) == 0


def test_settings_that_cannot_be_read_end_the_agent_with_a_sentence(home: Path) -> None:
    (home / "agent.toml").write_text("device = 7\n")
    done = subprocess.run(
        [sys.executable, "-m", "device_agent", str(home)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=30,
    )
    assert done.returncode == 1
    assert "agent.toml: device: 7" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor_logs_in_without_disturbing_a_running_agent(
    coordinator: ScriptedCoordinator, home: Path
) -> None:
    agent = AgentProcess(home)
    coordinator.be_born()
    coordinator.wait_for(Birth)
    (found,) = [item for item in examine(home) if item.about.startswith("broker")]
    assert (found.verdict, found.text) == ("ok", "lets 'dev-a' in")
    agent.end(signal.SIGTERM)
    assert [item.header.kind for item in coordinator.arrived].count("birth") <= 2
    assert coordinator.wait_for(Death)[0].reason == "stopped", "no connection was taken over"


def test_the_doctor_tells_a_wrong_password(home: Path) -> None:
    (home / "secret").write_text("wrong\n")
    (found,) = [item for item in examine(home) if item.about.startswith("broker")]
    assert found.verdict == "missing"
    assert "refuse" in found.text
    assert "wrong" not in found.text
