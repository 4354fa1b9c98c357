"""`[broker.tls]` and its files: what is refused before anything connects, and how it is told."""

import ssl
from pathlib import Path

import pytest
from pydantic import ValidationError

from fleetledger.transport.errors import TlsError
from fleetledger.transport.tls import TlsFiles, TlsSettings, find_tls
from tests.transport.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.user("dev-a")
    return made


OWN = TlsSettings(
    ca_file=Path("ca.pem"), certificate_file=Path("dev-a.pem"), key_file=Path("dev-a.key")
)


def test_files_are_found_beside_the_settings(authority: Authority) -> None:
    home = authority.folder
    assert find_tls(OWN, home, "dev-a") == TlsFiles(
        home / "ca.pem", home / "dev-a.pem", home / "dev-a.key"
    )
    assert find_tls(TlsSettings(), home, "dev-a") == TlsFiles()
    assert find_tls(None, home, "dev-a") is None


def test_names_are_checked_and_old_versions_refused(authority: Authority) -> None:
    for files in (TlsFiles(), TlsFiles(authority.ca_file)):
        context = files.context()
        assert context.check_hostname
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_only_the_named_ca_is_believed(authority: Authority) -> None:
    assert len(TlsFiles(authority.ca_file).context().get_ca_certs()) == 1


def test_there_is_no_switch_that_leaves_the_check_out() -> None:
    with pytest.raises(ValidationError, match="insecure"):
        TlsSettings.model_validate({"insecure": True})


@pytest.mark.parametrize("alone", ["certificate_file", "key_file"])
def test_a_certificate_comes_with_its_key(alone: str) -> None:
    with pytest.raises(ValidationError, match="give certificate_file and key_file, or neither"):
        TlsSettings.model_validate({alone: "file"})


@pytest.mark.parametrize("field", ["ca_file", "certificate_file", "key_file"])
def test_a_missing_file_is_named_with_its_setting(authority: Authority, field: str) -> None:
    settings = OWN.model_copy(update={field: Path("gone.pem")})
    with pytest.raises(TlsError, match=rf"broker.tls.{field}: .*gone.pem: cannot be read"):
        find_tls(settings, authority.folder, "dev-a")


def test_a_file_without_a_certificate_is_named(authority: Authority) -> None:
    authority.ca_file.write_text("no certificate")
    with pytest.raises(TlsError, match=r"broker.tls.ca_file: .*ca.pem: holds no certificate"):
        find_tls(OWN, authority.folder, "dev-a")


def test_the_key_of_another_certificate_is_refused(authority: Authority) -> None:
    authority.user("dev-b")
    settings = OWN.model_copy(update={"key_file": Path("dev-b.key")})
    with pytest.raises(TlsError, match="give a certificate and its own key"):
        find_tls(settings, authority.folder, "dev-a")


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(authority: Authority) -> None:
    authority.user("dev-a", password=b"a secret")
    with pytest.raises(TlsError, match="the key without a password"):
        find_tls(OWN, authority.folder, "dev-a")


def test_a_key_that_others_may_read_is_refused(authority: Authority) -> None:
    (authority.folder / "dev-a.key").chmod(0o640)
    with pytest.raises(TlsError, match=r"others may read it \(mode 0640\); run `chmod 600"):
        find_tls(OWN, authority.folder, "dev-a")


def test_the_certificate_of_another_user_is_refused(authority: Authority) -> None:
    with pytest.raises(TlsError, match="its common name is 'dev-a', and the user here is 'dev-b'"):
        find_tls(OWN, authority.folder, "dev-b")
