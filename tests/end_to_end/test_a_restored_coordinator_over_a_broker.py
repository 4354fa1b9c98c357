"""Mosquitto, a lost coordinator restored from its mirror, and a model that comes from there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.program import file_urls
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.released_fleet import ReleasedFleet, RunningCoordinator
from tests.transport.web import WebHost

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[WebHost]:
    (tmp_path / "mirror").mkdir()
    made = WebHost(tmp_path / "mirror", tmp_path / "ca")
    yield made
    made.end()


@pytest.fixture
def fleet(tmp_path: Path, mosquitto: MosquittoBroker, host: WebHost) -> Iterator[ReleasedFleet]:
    made = ReleasedFleet(tmp_path, mosquitto, "far-orchard", "dev-a")
    with (made.agent_home / "agent.toml").open("a", encoding="utf-8") as settings:
        settings.write(f'[files]\nhosts = ["localhost"]\nca_file = "{host.ca_file}"\n')
    made.start_agent()
    try:
        yield made
    finally:
        made.close()


def ledger(*words: str) -> None:
    done = CliRunner().invoke(cli.app, list(words))
    assert done.exit_code == 0, done.output


def lose_and_restore(fleet: ReleasedFleet, mirror: Path, more: str) -> None:
    """Lose the coordinator's machine; begin anew with its keys, settings and the mirror."""
    fleet.coordinator.stop()
    kept = fleet.home.rename(fleet.folder / "kept")
    shutil.copytree(kept, fleet.home, ignore=lambda *_: ["ledger", "operator.db", "live.db"])
    with (fleet.home / "coordinator.toml").open("a", encoding="utf-8") as settings:
        settings.write(more)
    ledger("restore", str(mirror), "--home", str(fleet.home))
    fleet.coordinator = RunningCoordinator(fleet.home)


def test_a_restored_coordinator_leads_on_and_its_models_come_from_the_mirror(
    fleet: ReleasedFleet, host: WebHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_urls, "SMALL_BLOB_BYTES", 0)  # its models are small
    fleet.learn("vertical", "horizontal")
    fleet.until(lambda: fleet.waits(1))
    mirror = tmp_path / "mirror"
    ledger("mirror", str(mirror), "--home", str(fleet.home))
    with ledger_of(fleet.home) as before:
        size, root = before.size, before.root
        exported = next(before.find(ModelExported)).body
    lose_and_restore(fleet, mirror, f'[files]\nurl = "{host.url("ranges/blobs")}"\n')
    fleet.sign(1, "r1")
    fleet.until(lambda: fleet.runs() == 1)
    with ledger_of(fleet.home) as after:
        assert after.size > size
        assert after.root_at(size) == root
    asked = {path.rpartition("/")[2] for path in host.end()}
    assert exported["manifest"]["digest"] in asked
    assert len(asked & {file["digest"] for file in exported["files"]}) >= 2
    ledger("verify", "--home", str(fleet.home))

    fleet.learn("spot")
    fleet.until(lambda: fleet.waits(2))
    fleet.sign(2, "r1")
    fleet.until(lambda: fleet.runs() == 2)  # the server is gone, the broker is not
