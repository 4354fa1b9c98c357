"""Homes of coordinator and agents: read back by the programs that live there."""

import stat
from pathlib import Path

import pytest

from coordinator.settings import load, read_password
from coordinator.trust.keys import public_key
from device_agent.home import AgentHome
from device_agent.keys import KeyRing
from methods.stsa.settings import StsaSettings
from schemas.enrolment import Enrolment
from schemas.values import ClassName
from simulator.datasets.digits import split_digits
from simulator.demo.homes import make_agent, make_coordinator
from simulator.demo.material import digits_material
from simulator.demo.plan import make_plan
from simulator.demo.run_folder import RunFolder
from simulator.demo.settings import FLEET, DemoSettings
from simulator.engines.mqtt.ledger_source import LedgerSource
from simulator.engines.mqtt.view import FleetView
from transport.brokers import MosquittoBroker


@pytest.fixture
def settings(tmp_path: Path) -> DemoSettings:
    return DemoSettings(tmp_path / "run", agents=2, stages=2, map_width=60, seed=9, form="exact")


@pytest.fixture
def folder(settings: DemoSettings) -> RunFolder:
    return RunFolder.create(settings.out)


@pytest.fixture
def broker(tmp_path: Path) -> MosquittoBroker:
    """Not started: only its address and secrets are asked for."""
    return MosquittoBroker(tmp_path / "broker", ["device-1", "device-2"], port=18830)


def test_the_coordinator_finds_its_broker_devices_and_backbone(settings, folder, broker):
    make_coordinator(folder, broker, settings, digits_material(settings.seed))
    read = load(folder.coordinator)
    assert (read.fleet, read.broker.host, read.broker.port) == (FLEET, "127.0.0.1", 18830)
    assert read_password(folder.coordinator, read) == broker.credentials("coordinator")[1]
    stsa = StsaSettings.model_validate(read.method.settings)
    assert (stsa.form, stsa.map_width, stsa.map_seed) == ("exact", 60, 9)
    view = FleetView()
    for entry in LedgerSource(folder.coordinator)(0):
        view.take(*entry)
    assert set(view.state.devices.admitted) == {"device-1", "device-2"}
    assert view.state.lineages.current is not None
    assert (
        view.state.lineages.current.backbone_width,
        view.state.lineages.current.feature_width,
    ) == (64, 60)


def test_an_agent_finds_its_broker_secret_key_and_images(settings, folder, broker):
    make_coordinator(folder, broker, settings, digits_material(settings.seed))
    plan = make_plan(split_digits(settings.seed), settings)
    device = plan.devices[1]
    make_agent(folder, broker, device, plan, settings)
    home = AgentHome.open(folder.agent(device))
    assert home.settings.device == device
    assert home.password() == broker.credentials(device)[1]
    assert home.settings.coordinator_key == public_key(folder.coordinator)
    keys = KeyRing.beside(home.folder, home.settings.fleet, device)
    assert isinstance(keys.asks, Enrolment)
    assert load(folder.coordinator).security.require_keys
    assert home.data_folder.is_dir()
    assert not list(home.data_folder.iterdir())
    assert home.evaluation_folder is not None
    held = {ClassName(p.name): len(list(p.iterdir())) for p in home.evaluation_folder.iterdir()}
    assert held == plan.test[device].counts()


def test_secrets_are_readable_by_their_owner_alone(settings, folder, broker):
    make_coordinator(folder, broker, settings, digits_material(settings.seed))
    mode = (folder.coordinator / "broker.password").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
