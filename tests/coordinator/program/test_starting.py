"""The coordinator's program begins once its ledger is free."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fleetledger.coordinator import serve
from fleetledger.coordinator.errors import LedgerLockedError
from fleetledger.coordinator.ledger.lock import WriterLock
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.settings import CoordinatorSettings, load, write_new
from fleetledger.schemas.values import FleetId


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_new(tmp_path, CoordinatorSettings(fleet=FleetId("mill")))
    ledger_path(tmp_path).parent.mkdir()
    return tmp_path


def command_with_the_ledger(home: Path) -> WriterLock:
    path = ledger_path(home)
    return WriterLock(path.with_name(f"{path.name}.lock"))


def test_a_command_that_has_the_ledger_just_then_is_waited_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = command_with_the_ledger(home)
    waits = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: command.release())
    monkeypatch.setattr(serve, "time", waits)
    coordinator = serve.assemble_when_free(home, load(home))
    coordinator.close()
    command_with_the_ledger(home).release()


def test_another_coordinator_is_not_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = command_with_the_ledger(home)
    monkeypatch.setattr(serve, "LOCKED_SECONDS", 0.0)
    with pytest.raises(LedgerLockedError):
        serve.assemble_when_free(home, load(home))
    other.release()
