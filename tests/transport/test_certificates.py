"""Certificates are told of for a month before they end, until they are replaced."""

from datetime import timedelta
from pathlib import Path

import pytest

from fleetledger.coordinator.program.broker_folders import (
    KnownBroker,
    certificate_watch,
    remember_broker,
)
from fleetledger.coordinator.settings import load
from fleetledger.transport.certificates import CertificateWatch, ending
from fleetledger.transport.tls import TlsFiles
from fleetledger.transport.tls_failures import hint_for_closing
from tests.coordinator.program.test_watch import Leaping
from tests.coordinator.shell_harness import write_home
from tests.device_agent.scripted import write_settings
from tests.transport.certificates import DAY, Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls", ends=3650 * DAY)


def watch_of_device(folder: Path, authority: Authority, time: Leaping) -> CertificateWatch:
    certificate = authority.folder / "dev-a.pem"
    tls = f'ca_file = "{authority.ca_file}"\ncertificate_file = "{certificate}"\n'
    tls += f'key_file = "{certificate.with_suffix(".key")}"\n'
    home = write_settings(folder, f"[broker.tls]\n{tls}")
    return CertificateWatch(home.certificates, time.clock)


def test_a_device_tells_its_certificate_before_and_after_the_end_until_it_is_renewed(
    tmp_path: Path, authority: Authority
) -> None:
    authority.user("dev-a", ends=60 * DAY)
    time = Leaping()
    watch = watch_of_device(tmp_path / "home", authority, time)
    assert watch.problems() == []
    time.leapt = 31 * 86_400.0
    (before,) = watch.problems()
    assert "dev-a.pem: the certificate ends " in before.text
    assert before.text.endswith("ask the fleet's operator for a new kit")
    assert not before.hinders
    time.leapt = 61 * 86_400.0
    (after,) = watch.problems()
    assert "the certificate ended " in after.text
    assert after.hinders
    authority.user("dev-a", ends=3650 * DAY)
    time.leapt += 61
    assert watch.problems() == []


def test_an_authority_that_ends_is_told_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls", ends=20 * DAY)
    authority.user("dev-a", ends=60 * DAY)
    (found,) = watch_of_device(tmp_path / "home", authority, Leaping()).problems()
    assert "ca.pem: the authority's certificate ends " in found.text


def test_a_home_without_tls_or_with_a_broken_file_has_none(tmp_path: Path) -> None:
    home = write_settings(tmp_path / "plain")
    assert list(ending(home.certificates(), 0)) == []
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "ca.pem").write_text("none")
    home = write_settings(tmp_path / "broken", '[broker.tls]\nca_file = "ca.pem"\n')
    assert list(ending(home.certificates(), 0)) == []


@pytest.mark.parametrize(
    ("provisioned", "way_out"),
    [(True, "`fleetledger coordinator provision`"), (False, "put a newer one there")],
)
def test_a_coordinator_tells_the_certificate_of_its_broker(
    tmp_path: Path, authority: Authority, provisioned: bool, way_out: str
) -> None:
    home, file = tmp_path / "home", authority.server("localhost", ends=10 * DAY)
    write_home(home)
    watch = certificate_watch(home, load(home), Leaping().clock)
    known = KnownBroker(
        folder=file.parent,
        place=Path("/there"),
        certificate_file=Path("/there", file.name) if provisioned else file,
        kits=tmp_path if provisioned else None,
    )
    remember_broker(home, known)
    (found,) = watch.problems()
    assert "the broker's certificate ends " in found.text
    assert way_out in found.text


@pytest.mark.parametrize(("ends", "said"), [(-DAY / 2, "ended "), (DAY, "was not taken back")])
def test_a_broker_that_hangs_up_makes_an_ended_certificate_known(
    authority: Authority, ends: timedelta, said: str
) -> None:
    authority.user("dev-a", ends=ends)
    certificate = authority.folder / "dev-a.pem"
    files = TlsFiles(authority.ca_file, certificate, certificate.with_suffix(".key"))
    assert said in hint_for_closing(files)
