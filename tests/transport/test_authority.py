"""The fleet's CA: made once, read again, and believed by those who have its certificate."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from fleetledger.transport.brokers.authority import Authority as FleetAuthority
from fleetledger.transport.brokers.authority import names_of
from fleetledger.transport.errors import BrokerFilesError
from fleetledger.transport.tls import TlsFiles


def test_the_same_folder_gives_the_same_authority(tmp_path: Path) -> None:
    first = FleetAuthority.of(tmp_path, "mill")
    assert FleetAuthority.of(tmp_path, "mill").certificate == first.certificate
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600


def test_what_it_signs_is_believed_by_who_has_its_certificate(tmp_path: Path) -> None:
    authority = FleetAuthority.of(tmp_path / "ca", "mill")
    issued = authority.user("camera-1")
    (tmp_path / "device.pem").write_text(issued.certificate)
    (tmp_path / "device.key").write_text(issued.key)
    files = TlsFiles(tmp_path / "ca" / "ca.pem", tmp_path / "device.pem", tmp_path / "device.key")
    assert isinstance(files.context(), ssl.SSLContext)


def test_names_and_addresses_of_a_broker_are_found_again(tmp_path: Path) -> None:
    issued = FleetAuthority.of(tmp_path, "mill").server(["broker.lan", "10.0.0.7", "::1"])
    file = tmp_path / "server.pem"
    assert names_of(file) == ()
    file.write_text(issued.certificate)
    assert set(names_of(file)) == {"broker.lan", "10.0.0.7", "::1"}


def test_a_certificate_that_is_lost_is_made_again_by_the_same_key(tmp_path: Path) -> None:
    first = FleetAuthority.of(tmp_path, "mill")
    (tmp_path / "ca.pem").unlink()
    again = FleetAuthority.of(tmp_path, "mill")
    assert again.certificate != first.certificate
    assert (tmp_path / "ca.pem").read_text() == again.certificate


def test_a_key_of_another_authority_is_refused(tmp_path: Path) -> None:
    FleetAuthority.of(tmp_path / "a", "mill")
    FleetAuthority.of(tmp_path / "b", "mill")
    (tmp_path / "a" / "ca.key").write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(BrokerFilesError, match="put the right one back"):
        FleetAuthority.of(tmp_path / "a", "mill")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    FleetAuthority.of(tmp_path, "mill")
    (tmp_path / "ca.key").write_text("no key")
    with pytest.raises(BrokerFilesError, match="back from a backup"):
        FleetAuthority.of(tmp_path, "mill")
