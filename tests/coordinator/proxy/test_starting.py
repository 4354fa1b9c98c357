"""Setting a proxy up and starting it: settings, one program for each folder, torch, embedding."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli.coordinator import app
from fleetledger.coordinator.errors import ProxyError
from fleetledger.coordinator.proxy import program
from fleetledger.coordinator.proxy.settings import ProxyHomeSettings, load, write_new
from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.runtime.pip_command import pip_install
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.values import FleetId


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "proxy"
    write_new(folder, ProxyHomeSettings(fleet=FleetId("mill")))
    return folder


def test_init_writes_settings_that_can_be_read(tmp_path: Path) -> None:
    where = ["--home", str(tmp_path / "new"), "--fleet", "mill", "--password-file", "secret"]
    said = CliRunner().invoke(app, ["proxy-init", *where, "--broker-port", "1999"])
    assert said.exit_code == 0, said.output
    settings = load(tmp_path / "new")
    assert (settings.fleet, settings.broker.port) == ("mill", 1999)
    with pytest.raises(SettingsError, match="secret"):
        program.mqtt_connect(tmp_path / "new", settings)
    write_private(tmp_path / "new" / "secret", b"word\n")
    program.mqtt_connect(tmp_path / "new", settings)
    (tmp_path / "new" / "secret").chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        program.mqtt_connect(tmp_path / "new", settings)


def test_settings_are_not_written_over(home: Path) -> None:
    with pytest.raises(SettingsError, match="exists already"):
        write_new(home, ProxyHomeSettings(fleet=FleetId("other")))
    assert load(home) == ProxyHomeSettings(fleet=FleetId("mill"))


def test_without_torch_a_proxy_says_what_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "find_spec", lambda name: None)
    with pytest.raises(ProxyError, match=re.escape(pip_install("train"))):
        program.serve(home)


def test_one_folder_has_one_proxy_and_is_closed_to_others(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "find_spec", lambda name: object())
    lock = program.lock_home(home)
    assert home.stat().st_mode & 0o077 == 0
    with pytest.raises(ProxyError, match="another proxy runs here"):
        program.lock_home(home)
    lock.release()
    program.lock_home(home).release()


def test_a_coordinator_can_be_told_to_run_a_proxy() -> None:
    settings = CoordinatorSettings.model_validate({"fleet": "mill", "proxy": {"home": "../proxy"}})
    assert settings.proxy is not None
    assert settings.proxy.home == Path("../proxy")
    assert CoordinatorSettings(fleet=FleetId("mill")).proxy is None


def test_an_embedded_proxy_ends_with_its_coordinator(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "find_spec", lambda name: object())
    ended = threading.Event()
    embedded = program.Embedded(home, ended.set)
    with pytest.raises(ProxyError, match="another proxy"):
        program.lock_home(home)
    embedded.stop()
    assert not ended.is_set()
    program.lock_home(home).release()


def test_an_embedded_proxy_that_cannot_start_is_an_error_of_the_coordinator(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "find_spec", lambda name: object())
    (home / "proxy.db").write_bytes(b"no database, and long enough to be looked at" * 50)
    ended = threading.Event()
    with pytest.raises(ProxyError, match=r"proxy.db"):
        program.Embedded(home, ended.set)
    assert ended.is_set()
    program.lock_home(home).release()
