"""TLS: whose certificate we believe, and the one that says who we are.

The broker's name is always checked against its certificate; there is no switch that leaves that
out. Files are read at every connection, so renewed ones need no restart.
"""

from __future__ import annotations

import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.strict import Strict
from fleetledger.transport.errors import TlsError


class TlsSettings(Strict):
    """`[broker.tls]` of a settings file; relative paths begin at that file's folder."""

    ca_file: Path | None = Field(default=None, examples=["ca.pem"])
    """Certificates of the CAs that may have signed the broker's; left out, the system's."""
    certificate_file: Path | None = Field(default=None, examples=["NAME.pem"])
    """Our own certificate, for a broker that asks for one instead of a password; its common name is
    the user name."""
    key_file: Path | None = Field(default=None, examples=["NAME.key"])
    """The key of that certificate, without a password, readable by its owner alone (mode 0600)."""

    @model_validator(mode="after")
    def _have_both_or_neither(self) -> Self:
        if (self.certificate_file is None) != (self.key_file is None):
            missing = "certificate_file" if self.certificate_file is None else "key_file"
            raise ValueError(
                f"{missing} is missing; give certificate_file and key_file, or neither"
            )
        return self


@dataclass(frozen=True)
class TlsFiles:
    """The files of a `TlsSettings`, found."""

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Read the files; raise `TlsError` that names the setting and the file."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the name, believes nobody yet
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.ca_file is None:
            context.load_default_certs()
        else:
            _load_ca(context, self.ca_file)
        if self.certificate_file is not None and self.key_file is not None:
            _load_certificate(context, self.certificate_file, self.key_file)
        return context


def find_tls(settings: TlsSettings | None, home: Path, user: str) -> TlsFiles | None:
    """Return the files of `settings` in `home`, tried out; None where there is no TLS.

    Raises `TlsError` for a file that cannot be used, a key that others may read, and a certificate
    that was made for another user than `user`.
    """
    if settings is None:
        return None
    found = TlsFiles(
        *(
            None if file is None else home / file
            for file in (settings.ca_file, settings.certificate_file, settings.key_file)
        )
    )
    found.context()
    if found.certificate_file is not None and found.key_file is not None:
        _check_mode(found.key_file)
        _check_name(found.certificate_file, user)
    return found


def _load_ca(context: ssl.SSLContext, file: Path) -> None:
    _check_readable("ca_file", file)
    try:
        context.load_verify_locations(cafile=file)
    except ssl.SSLError as error:
        raise TlsError(
            f"broker.tls.ca_file: {file}: holds no certificate ({_reason(error)}); give the CA's, "
            "in PEM"
        ) from error


def _load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    _check_readable("certificate_file", certificate)
    _check_readable("key_file", key)
    try:
        # With an empty password OpenSSL refuses a locked key; without one it would ask for it.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        raise TlsError(
            f"broker.tls.certificate_file: {certificate} with key_file {key}: they cannot be used "
            f"({_reason(error)}); give a certificate and its own key, both in PEM, the key without "
            "a password"
        ) from error


def _check_readable(field: str, file: Path) -> None:
    try:
        file.open("rb").close()
    except OSError as error:
        raise TlsError(
            f"broker.tls.{field}: {file}: cannot be read: {error.strerror}; put it there"
        ) from error


def _check_mode(key: Path) -> None:
    mode = stat.S_IMODE(key.stat().st_mode)
    if mode & 0o077:
        raise TlsError(
            f"broker.tls.key_file: {key}: others may read it (mode {mode:04o}); "
            f"run `chmod 600 {key}`"
        )


def _check_name(certificate: Path, user: str) -> None:
    """Compare the names: a broker lets us in under the certificate's, which has other rights."""
    from cryptography import x509  # noqa: PLC0415 - for those who have a certificate

    subject = x509.load_pem_x509_certificates(certificate.read_bytes())[0].subject
    names = [str(part.value) for part in subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    if names != [user]:
        raise TlsError(
            f"broker.tls.certificate_file: {certificate}: its common name is "
            f"{', '.join(map(repr, names)) or 'missing'}, and the user here is {user!r}; have one "
            "made for this name"
        )


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")
