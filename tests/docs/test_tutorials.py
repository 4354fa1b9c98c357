"""The tutorials, followed literally: every file, every command, and what they show."""

import shutil
from pathlib import Path

import pytest

from coordinator.ledger.reader import LedgerReader
from coordinator.paths import ledger_path
from coordinator.topics.models.entries import ModelImported
from tests.coordinator.serving.test_webhook import hook
from tests.device_agent.scripted import eventually
from tests.docs.sessions import Command, commands, session
from tests.test_architecture import ROOT
from tests.transport.standalone import free_port

TUTORIALS = ROOT / "docs" / "tutorials"


@pytest.mark.slow
@pytest.mark.broker
def test_a_fleet_in_ten_minutes(tmp_path: Path) -> None:
    page = TUTORIALS / "a-fleet-in-ten-minutes.md"
    replaced = {"1884": str(free_port("127.0.0.1"))}
    with session(tmp_path, page, replaced) as opened:
        for command in commands(page):
            opened.type(command)


@pytest.mark.slow
def test_a_simulation_of_your_own(tmp_path: Path) -> None:
    page = TUTORIALS / "a-simulation-of-your-own.md"
    with session(tmp_path, page, {}) as opened:
        for command in commands(page):
            opened.type(command)
    for run in ("wide", "narrow"):
        assert (tmp_path / "runs" / run / "report.html").exists()


def test_a_method_of_your_own(tmp_path: Path) -> None:
    page = TUTORIALS / "a-method-of-your-own.md"
    with session(tmp_path, page, {}) as opened:
        said = [opened.type(command) for command in commands(page)]
    assert "d95bdba34c33 89.2 %" in said[0]
    assert "d95bdba34c33 87.3 %" in said[1]


@pytest.mark.slow
@pytest.mark.broker
def test_pushing_models_of_your_own(tmp_path: Path) -> None:
    page = ROOT / "docs" / "push-models.md"
    replaced = {"1884": str(free_port("127.0.0.1"))}
    with session(tmp_path, page, replaced) as opened:
        for command in commands(page):
            opened.type(command)
    with LedgerReader.open_read_only(ledger_path(tmp_path / "coordinator-home")) as ledger:
        imported = [entry.body for entry in ledger.entries(kind=ModelImported.kind)]
    first, second = imported[:2]
    assert second["frozen"] == first["frozen"], "the second version moves nothing but its head"
    assert second["head"] != first["head"]


@pytest.mark.slow
@pytest.mark.broker
def test_setting_up_many_devices_and_their_year(tmp_path: Path) -> None:
    """The fleet of the first page is that of the second; the coordinator also posts alerts."""
    pages = [ROOT / "docs" / name for name in ("set-up-many-devices.md", "operating.md")]
    with (
        hook() as alerts,
        session(tmp_path, pages[0], {"8883": str(free_port("127.0.0.1"))}) as opened,
    ):
        for command in (command for page in pages for command in commands(page)):
            if "coordinator serve" in command.line:
                with (tmp_path / "coordinator-home" / "coordinator.toml").open("a") as settings:
                    settings.write(f'\n[webhook]\nurl = "{alerts.url}"\nseconds = 1\n')
            opened.type(command)
        broker = tmp_path / "kits" / "broker" / "state"
        eventually((broker / "mosquitto.log").exists)
        assert (broker / "mosquitto.log.1").stat().st_size > 0
        password = tmp_path / "kits" / "broker" / "passwords" / "coordinator"
        shutil.copy(password, tmp_path / "moved" / "broker.password")  # changed since the archive
        opened.type(Command("fleetledger coordinator serve --home moved &", ()))
        eventually(lambda: any("another one runs" in post["text"] for post in alerts.taken))
    with LedgerReader.open_read_only(ledger_path(tmp_path / "moved")) as ledger:
        assert ledger.size > 0
