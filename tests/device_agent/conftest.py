"""A broker in memory, a coordinator on a script, an agent's home, and an agent that runs there.

`process_…` are the same for agents in processes of their own, over a real Mosquitto. It serves many
tests, keeps states and desired models of their devices, and publishes wills of killed agents ten
seconds later. So each test has a fleet of its own there.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.memory import InMemoryBroker
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MqttSettings
from tests.device_agent import model_files as models
from tests.device_agent import scripted
from tests.device_agent.agent_process import AgentProcess
from tests.device_agent.scripted import RunningAgent, ScriptedCoordinator, settle

DEVICE = DeviceId("dev-a")
_FLEETS = (FleetId(f"workshop-{number}") for number in itertools.count(1))


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


@pytest.fixture
def coordinator(broker: InMemoryBroker) -> Iterator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator.in_memory(broker)
    yield scripted
    scripted.stop()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An agent's home with five pictures of two classes, changed long ago."""
    folder = tmp_path / "home"
    models.put_pictures(folder / "data", "dark", 1, 2, 3)
    models.put_pictures(folder / "data", "light", 4, 5)
    models.put_pictures(folder / "test", "dark", 11, 12, 13)
    models.put_pictures(folder / "test", "light", 14)
    settle(folder / "data")
    return folder


@pytest.fixture
def running(broker: InMemoryBroker, home: Path) -> Iterator[RunningAgent]:
    agent = RunningAgent(broker, home)
    yield agent
    agent.stop()


@pytest.fixture
def process_fleet(monkeypatch: pytest.MonkeyPatch) -> FleetId:
    fleet = next(_FLEETS)
    monkeypatch.setattr(scripted, "DEVICE", DEVICE)
    monkeypatch.setattr(scripted, "FLEET", fleet)
    monkeypatch.setattr(scripted, "TOPICS", FleetTopics(fleet))
    return fleet


@pytest.fixture
def process_coordinator(
    mosquitto: MosquittoBroker, process_fleet: FleetId
) -> Iterator[ScriptedCoordinator]:
    user, password = mosquitto.credentials("coordinator")

    def connect(name: str) -> MqttConnection:
        return MqttConnection(
            MqttSettings(
                client_id=f"{process_fleet}.{name}",
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
def process_home(
    tmp_path: Path, mosquitto: MosquittoBroker, process_fleet: FleetId
) -> Iterator[Path]:
    models.put_pictures(tmp_path / "data", "dark", 1, 2)
    models.put_pictures(tmp_path / "data", "light", 3)
    models.put_pictures(tmp_path / "test", "dark", 4)
    settle(tmp_path / "data")
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text(mosquitto.credentials(DEVICE)[1] + "\n")
    (tmp_path / "agent.toml").write_text(
        f'device = "{DEVICE}"\nfleet = "{process_fleet}"\n'
        f'[broker]\nhost = "{mosquitto.host}"\nport = {mosquitto.port}\n'
        'password_file = "secret"\n'
        '[data]\nfolder = "data"\nevaluation_folder = "test"\nscan_seconds = 0.2\n'
        "longest_pause_seconds = 0\n"
        '[model]\nproviders = ["CPUExecutionProvider"]\n'
    )
    yield tmp_path
    AgentProcess.kill_all()
