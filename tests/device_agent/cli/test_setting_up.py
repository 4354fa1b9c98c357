"""`agent install`: what a kit becomes on its device."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.device_agent.cli.doctor import examine
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.runtime import command_output
from fleetledger.runtime.systemd_units import UnitKind
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.kits import Kit
from fleetledger.schemas.token import Token
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.brokers.authority import Authority as FleetAuthority
from fleetledger.transport.mqtt_settings import settings_by_role

DEVICE, FLEET = DeviceId("camera-1"), FleetId("mill")
COORDINATOR_KEY = SigningKey.fresh(KeyName(f"{FLEET}/coordinator")).verify_key
ME = pwd.getpwuid(os.geteuid()).pw_name


def token(device: DeviceId = DEVICE) -> Token:
    return Token.fresh(FLEET, device, COORDINATOR_KEY, 2**62)


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A kit of a device with a certificate."""
    return kit_for(tmp_path / "kit", DEVICE)


def kit_for(folder: Path, device: DeviceId) -> Path:
    folder.mkdir()
    authority = FleetAuthority.of(folder.parent / "ca", FLEET)
    issued = authority.user(device)
    made = Kit(device=device, fleet=FLEET, host="broker.lan", port=8883, data="d", evaluation="e")
    (folder / "kit.toml").write_text(made.toml())
    (folder / "ca.pem").write_text(authority.certificate)
    (folder / "device.pem").write_text(issued.certificate)
    (folder / "device.key").write_text(issued.key)
    (folder / "token").write_text(f"{token(device).text}\n")
    return folder


def install(kit: Path, home: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(
        app, ["agent", "install", str(kit), "--yes", "--home", str(home), *options]
    )
    return done.exit_code, done.output + str(done.exception or "")


def test_a_kit_becomes_a_home_that_an_agent_can_run_in(kit: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"

    code, said = install(kit, home)

    assert code == 0, said
    opened = AgentHome.open(home)
    settings = opened.settings
    assert (settings.device, settings.fleet) == (DEVICE, FLEET)
    assert (settings.broker.host, settings.broker.port) == ("broker.lan", 8883)
    assert opened.data_folder == home / "d"
    assert opened.evaluation_folder == home / "e"
    assert settings.coordinator_key == COORDINATOR_KEY
    assert KeyRing.beside(home, FLEET, DEVICE).waiting is not None
    assert stat.S_IMODE((home / "device.key").stat().st_mode) == 0o600
    said_of_tls = [found for found in examine(home) if "tls" in found.text]
    assert all("cannot be" not in found.text for found in said_of_tls)


def test_a_kit_says_what_models_run_on_here(kit: Path, tmp_path: Path) -> None:
    text = (kit / "kit.toml").read_text()
    assert "variant" not in text, "agents of before read kits that do not choose"
    (kit / "kit.toml").write_text(text + 'variant = "int8"\n')
    install(kit, tmp_path / "home")
    assert AgentHome.open(tmp_path / "home").settings.model.variant == "int8"


def test_installed_again_it_keeps_settings_and_key(kit: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    install(kit, home)
    file = home / "agent.toml"
    file.write_text(file.read_text().replace("scan_seconds = 5", "scan_seconds = 9"))
    waiting = (home / "keys" / "waiting.json").read_bytes()

    code, said = install(kit, home)

    assert code == 0
    assert f"keep {file}" in said
    assert AgentHome.open(home).settings.data.scan_seconds == 9
    assert (home / "keys" / "waiting.json").read_bytes() == waiting


def test_a_newer_kit_replaces_certificate_and_token(kit: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    install(kit, home)
    waiting = (home / "keys" / "waiting.json").read_bytes()
    newer = kit_for(tmp_path / "newer", DEVICE)

    assert install(newer, home)[0] == 0

    assert (home / "device.pem").read_bytes() == (newer / "device.pem").read_bytes()
    assert (home / "keys" / "waiting.json").read_bytes() != waiting


def test_a_kit_of_another_device_is_refused(kit: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    install(kit, home)
    before = (home / "device.pem").read_bytes()

    code, said = install(kit_for(tmp_path / "other", DeviceId("camera-2")), home)

    assert code == 1
    assert "is the home of camera-1 of mill, and the kit is for camera-2" in said
    assert (home / "device.pem").read_bytes() == before


def test_a_dry_run_tells_and_does_nothing(kit: Path, tmp_path: Path) -> None:
    home, units = tmp_path / "home", tmp_path / "units"

    code, said = install(kit, home, "--dry-run", "--unit", str(units), "--user", ME)

    assert code == 0
    assert f"would write {home / 'agent.toml'}" in said
    assert f"would write {units / 'fleetledger-agent.service'}" in said
    assert not home.exists()
    assert not units.exists()


def test_the_unit_is_for_this_home_and_this_user(kit: Path, tmp_path: Path) -> None:
    home, units = tmp_path / "home", tmp_path / "units"

    code, said = install(kit, home, "--unit", str(units), "--user", ME)

    assert code == 0, said
    answering = (units / UnitKind.INFER.file_name).read_text()
    assert "agent serve --home" in answering
    assert "PrivateNetwork=yes" in answering
    lines = (units / UnitKind.AGENT.file_name).read_text().splitlines()
    assert f"User={ME}" in lines
    assert f"ReadWritePaths={home}" in lines
    assert any(line.endswith(f" agent run --home {home}") for line in lines)


def test_a_user_who_is_not_there_is_told_how_to_be_made(kit: Path, tmp_path: Path) -> None:
    code, said = install(kit, tmp_path / "home", "--user", "nobody-of-that-name")
    assert code == 1
    assert "useradd --system" in said
    assert not (tmp_path / "home").exists()


def test_the_home_becomes_the_users(kit: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    home = tmp_path / "home"
    assert install(kit, home, "--user", "nobody")[0] == 0
    owners = {path.owner() for path in (home, *home.rglob("*"))}
    assert owners == {"nobody"}


def test_a_service_does_not_run_as_root(kit: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root is asked")
    code, said = install(kit, tmp_path / "home", "--unit", str(tmp_path / "units"))
    assert code == 1
    assert "needs no rights of root; say whose, as --user NAME" in said


def test_a_password_takes_the_place_of_a_certificate(kit: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("device.pem", "device.key"):
        (kit / name).unlink()
    (kit / "broker.password").write_text("secret\n")

    assert install(kit, home)[0] == 0

    opened = AgentHome.open(home)
    broker = opened.settings.broker
    assert settings_by_role(broker, home, "a")("control").password == home / "broker.password"
    tls = broker.tls
    assert tls is not None
    assert (tls.ca_file, tls.certificate_file) == (Path("ca.pem"), None)


def test_what_is_no_kit_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, said = install(tmp_path / "empty", tmp_path / "home")
    assert code == 1
    assert "kit.toml" in said


def test_init_writes_tls_and_the_evaluation_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    words = ["agent", "init", "--home", str(home), "--device", "a", "--fleet", "b", "--no-data"]
    options = ["--ca-file", "ca.pem", "--certificate-file", "a.pem", "--key-file", "a.key"]
    done = CliRunner().invoke(app, [*words, *options, "--evaluation", "held-out"])
    assert done.exit_code == 0, done.output
    settings = AgentHome.open(home).settings
    assert settings.data.evaluation_folder == Path("held-out")
    assert settings.broker.tls is not None
    assert settings.broker.tls.key_file == Path("a.key")


def test_init_speaks_tls_with_the_systems_cas_where_asked(tmp_path: Path) -> None:
    words = ["agent", "init", "--home", str(tmp_path), "--device", "a", "--fleet", "b", "--tls"]
    assert CliRunner().invoke(app, words).exit_code == 0
    tls = AgentHome.open(tmp_path).settings.broker.tls
    assert tls is not None
    assert tls.ca_file is None


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    words = ["agent", "init", "--home", str(tmp_path / "h"), "--device", "a", "--fleet", "b"]
    done = CliRunner().invoke(app, [*words, "--certificate-file", "a.pem"])
    assert done.exit_code == 1
    assert "key_file is missing" in str(done.exception)
    assert not (tmp_path / "h").exists()


def ask(kit: Path, home: Path, answer: str) -> tuple[int, str]:
    words = ["agent", "install", str(kit), "--home", str(home)]
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    with patch.object(command_output, "sys", terminal):
        done = CliRunner().invoke(app, words, input=answer)
    return done.exit_code, done.output


def test_broker_and_folders_outside_the_home_are_asked_for_before_anything_is_done(
    kit: Path, tmp_path: Path
) -> None:
    text = (kit / "kit.toml").read_text().replace('data = "d"', 'data = "/etc"')
    (kit / "kit.toml").write_text(text)
    home = tmp_path / "home"
    for answer in ("n\n", ""):
        code, said = ask(kit, home, answer)
        assert code == 1
        assert "Speak with the broker at broker.lan:8883 as" in said
        assert "read samples in /etc?" in said
        assert not home.exists()


def test_a_confirmed_kit_is_installed_and_asked_about_once(kit: Path, tmp_path: Path) -> None:
    code, said = ask(kit, tmp_path / "home", "y\n")
    assert (code, "samples" in said) == (0, False)
    code, said = ask(kit, tmp_path / "home", "")
    assert (code, "Speak with" in said) == (0, False)


def test_a_kit_with_a_link_is_refused(kit: Path, tmp_path: Path) -> None:
    (kit / "ca.pem").unlink()
    (kit / "ca.pem").symlink_to("/etc/passwd")
    code, said = install(kit, tmp_path / "home")
    assert code == 1
    assert "ca.pem: is a link" in said
    assert not (tmp_path / "home").exists()
