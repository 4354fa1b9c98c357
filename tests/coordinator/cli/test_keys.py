"""`fleetledger coordinator enrol` and `revoke`, run as commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fleetledger.coordinator.cli import coordinator as cli
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.keys import public_key
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.coordinator.topics.devices import views as device_views
from fleetledger.coordinator.topics.devices.entries import DeviceAdmitted
from fleetledger.coordinator.topics.keys.entries import DeviceInvited, DeviceKeyRevoked
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.token import Token
from fleetledger.schemas.values import DeviceId, FleetId


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_new(tmp_path, CoordinatorSettings(fleet=FleetId("harbour")))
    return tmp_path


def fleetledger(home: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(cli.app, [*arguments, "--home", str(home)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def entries(home: Path) -> list[object]:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        return [read_entry(entry.kind, entry.body) for entry in ledger.entries()]


def test_the_token_alone_goes_to_standard_output(home: Path) -> None:
    done = fleetledger(home, "enrol", "crane-7", "--hours", "2")
    token = Token.read(done.stdout)
    assert done.stdout == f"{token.text}\n"
    assert (token.fleet, token.device) == ("harbour", "crane-7")
    assert token.coordinator_key == public_key(home)
    assert "fleetledger agent enrol" in done.stderr
    assert token.text not in done.stderr
    invited = DeviceInvited(
        device=DeviceId("crane-7"), invitation=token.invitation, expires_ns=token.expires_ns
    )
    assert entries(home)[:2] == [DeviceAdmitted(device=DeviceId("crane-7")), invited]
    assert device_views.keys(home) == {"crane-7": "invited"}


def test_the_secret_is_nowhere_but_in_a_private_file(home: Path) -> None:
    token = Token.read(fleetledger(home, "enrol", "crane-7").stdout)
    for file in (path for path in home.rglob("*") if path.is_file()):
        data = file.read_bytes()
        if token.secret_bytes in data:
            assert file.name == token.invitation
            assert file.stat().st_mode & 0o777 == 0o600
        assert token.secret.encode() not in data, file
        assert token.text.encode() not in data, file


def test_a_second_token_replaces_the_first(home: Path) -> None:
    first, second = (Token.read(fleetledger(home, "enrol", "crane-7").stdout) for _ in range(2))
    kept = {path.name for path in (home / "keys" / "invitations").iterdir()}
    assert kept == {second.invitation}
    assert first.secret != second.secret


def test_a_revoked_device_is_shown_as_such(home: Path) -> None:
    fleetledger(home, "enrol", "crane-7")
    said = fleetledger(home, "revoke", "crane-7", "--reason", "sold").stdout
    assert "device crane-7 is shut out" in said
    assert DeviceKeyRevoked(device=DeviceId("crane-7"), key=None, reason="sold") in entries(home)
    assert device_views.keys(home) == {"crane-7": "revoked"}
    assert "revoked" in fleetledger(home, "status").stdout


def test_what_cannot_be_done_leaves_nothing_behind(home: Path) -> None:
    with pytest.raises(CommandError, match="is not admitted to this fleet"):
        fleetledger(home, "revoke", "crane-7")
    with pytest.raises(CommandError, match="rename the device"):
        fleetledger(home, "enrol", "proxy")
    assert list((home / "keys" / "invitations").iterdir()) == []
    with pytest.raises(SettingsError):
        fleetledger(home / "elsewhere", "enrol", "crane-7")
