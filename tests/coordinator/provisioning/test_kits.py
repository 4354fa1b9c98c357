"""Kits: who gets one, what is in it, and what happens the second time."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.settings import (
    CoordinatorBrokerSettings,
    CoordinatorSettings,
    load,
    write_new,
)
from fleetledger.coordinator.topics.devices.entries import DeviceTagged
from fleetledger.coordinator.topics.devices.views import keys
from fleetledger.coordinator.topics.keys.entries import DeviceInvited
from fleetledger.schemas.kits import Kit, read_kit
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.token import Token
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.brokers.authority import names_of
from fleetledger.transport.certificates import end_of
from fleetledger.transport.tls import find_tls
from tests.transport.certificates import DAY, Authority

HEAD = "name,site,data\n"


class Operator:
    """Somebody with a coordinator's home and a table of devices."""

    def __init__(self, folder: Path) -> None:
        self.home, self.out = folder / "home", folder / "kits"
        self.table = folder / "devices.csv"
        broker = CoordinatorBrokerSettings(host="broker.lan", port=8883)
        write_new(self.home, CoordinatorSettings(fleet=FleetId("mill"), broker=broker))

    def fills_in(self, *lines: str) -> None:
        self.table.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")

    def run(self, *arguments: str) -> tuple[int, str]:
        words = ("coordinator", *arguments, "--home", str(self.home))
        done = CliRunner().invoke(app, words)
        return done.exit_code, done.output + str(done.exception or "")

    def provisions(self, *options: str) -> str:
        code, said = self.run("provision", str(self.table), "--out", str(self.out), *options)
        assert code == 0, said
        return said

    def kit(self, device: str) -> Path:
        return self.out / "devices" / device

    def tags(self) -> dict[DeviceId, Mapping[TagName, TagValue]]:
        with ledger_of(self.home) as ledger:
            return state_of(ledger).devices.tags

    def written(self, kind: str) -> int:
        with LedgerReader.open_read_only(ledger_path(self.home)) as ledger:
            return len(list(ledger.find(ENTRY_KINDS[kind])))


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_each_device_is_admitted_and_has_a_folder(operator: Operator) -> None:
    operator.fills_in("camera-1,orchard-1,/data/images", "camera-2,orchard-1,none")

    said = operator.provisions()

    assert "made 2 kits" in said
    assert list(keys(operator.home)) == ["camera-1", "camera-2"]
    assert read_kit(operator.kit("camera-1")) == Kit(
        device=DeviceId("camera-1"),
        fleet=FleetId("mill"),
        host="broker.lan",
        port=8883,
        data="/data/images",
    )
    assert read_kit(operator.kit("camera-2")).data is None
    assert set(contents(operator.kit("camera-1"))) == {
        "kit.toml",
        "ca.pem",
        "device.pem",
        "device.key",
        "token",
        "fleetledger-agent.service",
        "fleetledger-infer.service",
    }


def test_devices_with_the_same_tags_share_an_entry(operator: Operator) -> None:
    operator.fills_in("camera-1,north,", "camera-2,north,", "camera-3,south,", "camera-4,,")
    operator.provisions()
    assert operator.written(DeviceTagged.kind) == 2
    assert operator.tags()[DeviceId("camera-2")] == {"site": "north"}


def test_secrets_are_for_their_owner_alone(operator: Operator) -> None:
    operator.fills_in("camera-1,,")
    operator.provisions()
    for folder in (operator.out, operator.kit("camera-1"), operator.out / "ca"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert set(modes(operator.kit("camera-1")).values()) == {0o600}
    assert modes(operator.out / "ca")["ca.key"] == 0o600
    assert modes(operator.out / "broker")["server.key"] == 0o600
    assert modes(operator.home)["coordinator.key"] == 0o600


def test_a_longer_table_gives_kits_to_new_devices_alone(operator: Operator) -> None:
    operator.fills_in("camera-1,north,")
    operator.provisions()
    before = contents(operator.out)

    operator.fills_in("camera-1,south,elsewhere", "camera-2,south,")
    said = operator.provisions()

    assert "made 1 kit in" in said
    assert "1 had theirs" in said
    after = contents(operator.out)
    assert {name: after[name] for name in before} == before
    assert operator.written(DeviceInvited.kind) == 2
    assert operator.tags()[DeviceId("camera-1")] == {"site": "north"}


def test_a_kit_that_was_cut_short_is_made_anew(operator: Operator) -> None:
    operator.fills_in("camera-1,,")
    operator.provisions()
    (operator.kit("camera-1") / "kit.toml").unlink()
    (operator.kit("camera-1").with_name(".camera-1.new")).mkdir()

    assert "made 1 kit" in operator.provisions()

    assert read_kit(operator.kit("camera-1")).device == "camera-1"
    assert [path.name for path in (operator.out / "devices").iterdir()] == ["camera-1"]


def test_the_token_is_the_devices_own(operator: Operator) -> None:
    operator.fills_in("camera-1,,")
    operator.provisions()
    token = Token.read((operator.kit("camera-1") / "token").read_text())
    assert (token.fleet, token.device) == ("mill", "camera-1")


def test_the_coordinator_is_given_its_certificate_once(operator: Operator) -> None:
    operator.fills_in("camera-1,,")
    said = operator.provisions()
    assert "restart what serves there" in said
    settings = load(operator.home)
    assert find_tls(settings.broker.tls, operator.home, "coordinator") is not None

    before = (operator.home / "coordinator.toml").read_bytes()
    assert "restart" not in operator.provisions()
    assert (operator.home / "coordinator.toml").read_bytes() == before


def test_the_brokers_certificate_has_every_name_it_was_ever_given(operator: Operator) -> None:
    certificate = operator.out / "broker" / "server.pem"
    operator.fills_in("camera-1,,")
    operator.provisions("--broker-host", "10.0.0.7")
    assert set(names_of(certificate)) == {"broker.lan", "10.0.0.7"}
    assert read_kit(operator.kit("camera-1")).host == "10.0.0.7"
    before = certificate.read_bytes()
    operator.provisions()
    assert certificate.read_bytes() == before
    operator.provisions("--broker-name", "broker.example")
    assert set(names_of(certificate)) == {"broker.lan", "10.0.0.7", "broker.example"}


def test_a_device_that_is_refused_keeps_no_other_from_its_kit(operator: Operator) -> None:
    operator.fills_in("camera-1,,", "coordinator,,", "camera-2,,")
    code, said = operator.run("provision", str(operator.table), "--out", str(operator.out))
    assert code == 1
    assert "line 3: device: 'coordinator' is the coordinator's own name" in said
    assert operator.kit("camera-1").exists()
    assert operator.kit("camera-2").exists()
    assert not operator.kit("coordinator").exists()


def test_a_wrong_table_does_nothing(operator: Operator) -> None:
    operator.fills_in("camera-1,,", "camera 2,,")
    code, _ = operator.run("provision", str(operator.table), "--out", str(operator.out))
    assert code == 1
    assert not operator.out.exists()
    assert not ledger_path(operator.home).exists()


def test_devices_may_log_in_by_password(operator: Operator) -> None:
    file = operator.home / "coordinator.toml"
    text = file.read_text().replace("# password_file", "password_file", 1)
    operator.fills_in("camera-1,,")
    code, said = operator.run(
        "provision", str(operator.table), "--out", str(operator.out), "--login", "password"
    )
    assert code == 1
    assert "broker.password_file: is missing" in said

    file.write_text(text)
    operator.provisions("--login", "password")

    kit = contents(operator.kit("camera-1"))
    assert len(kit["broker.password"].strip()) == 64
    assert "device.key" not in kit
    assert modes(operator.home)["broker.password"] == 0o600
    tls = load(operator.home).broker.tls
    assert tls is not None
    assert tls.certificate_file is None
    code, said = operator.run("provision", str(operator.table), "--out", str(operator.out))
    assert code == 1
    assert "its kits log in by password; choose the same --login" in said


def test_a_user_name_that_the_access_rules_do_not_know_is_refused(operator: Operator) -> None:
    file = operator.home / "coordinator.toml"
    file.write_text(file.read_text().replace('username = "coordinator"', 'username = "boss"'))
    operator.fills_in("camera-1,,")
    code, said = operator.run("provision", str(operator.table), "--out", str(operator.out))
    assert code == 1
    assert "broker.username: 'boss'" in said
    assert not operator.out.exists()


def test_a_brokers_certificate_near_its_end_is_renewed_with_its_names(
    operator: Operator, tmp_path: Path
) -> None:
    operator.fills_in("camera-1,orchard-1,none")
    operator.provisions("--broker-name", "10.0.0.1")
    certificate = operator.out / "broker" / "server.pem"
    first = certificate.read_bytes()
    operator.provisions()
    assert certificate.read_bytes() == first, "years are left"
    short = Authority(tmp_path / "short").server("broker.lan", "10.0.0.1", ends=10 * DAY)
    certificate.write_bytes(short.read_bytes())

    operator.provisions()

    end = end_of(certificate)
    assert end is not None
    assert end.year > 2 + datetime.now(timezone.utc).year
    assert set(names_of(certificate)) == {"broker.lan", "10.0.0.1"}
