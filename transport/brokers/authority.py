"""A certificate authority for one fleet: its folder has the CA, and it signs broker and users.

    ca.pem, ca.key    the CA; the key, mode 0600, stays where the folder is
    issued/USER       serial numbers of the user's certificates that still count, one a line
    crl.pem           the list of those that count no more (RFC 5280)

Keys are ECDSA on P-256 (FIPS 186-5), which every TLS 1.2 knows. Certificates begin a day before
they are made, because clocks of devices differ, and end after `YEARS`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from typing_extensions import Self

from fleetledger.transport.brokers.private_files import (
    forget_secret,
    make_private_folder,
    write_secret,
)
from fleetledger.transport.errors import BrokerFilesError

YEARS = 10
_DAY = timedelta(days=1)
_LONGEST_NAME = 64
"""Of a common name (RFC 5280)."""
CA_CERTIFICATE, CA_KEY = "ca.pem", "ca.key"
ISSUED, REVOKED = "issued", "crl.pem"


@dataclass(frozen=True)
class Issued:
    """A certificate and its private key, both PEM."""

    certificate: str
    key: str


class Authority:
    """A CA that signs for one fleet alone."""

    def __init__(
        self, folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> None:
        self._folder, self._certificate, self._key = folder, certificate, key

    @classmethod
    def of(cls, folder: Path, fleet: str) -> Self:
        """Return the CA in `folder`, made where there is none; raise `BrokerFilesError`.

        Whoever is killed in between goes on with the key: what it signed stays good.
        """
        make_private_folder(folder)
        key_file, certificate_file = folder / CA_KEY, folder / CA_CERTIFICATE
        if not key_file.exists():
            write_secret(key_file, _private(ec.generate_private_key(ec.SECP256R1())))
        try:
            key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise BrokerFilesError(f"{key_file}: is no ECDSA key; put the CA's own back")
            if not certificate_file.exists():
                write_secret(certificate_file, _pem(_self_signed(fleet, key)))
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise BrokerFilesError(
                f"{folder}: the CA cannot be read: {error}; put {CA_KEY} and {CA_CERTIFICATE} "
                "back from a backup"
            ) from error
        if key.public_key() != certificate.public_key():
            raise BrokerFilesError(
                f"{folder}: {CA_CERTIFICATE} is not of {CA_KEY}; put the right one back"
            )
        return cls(folder, certificate, key)

    @property
    def certificate(self) -> str:
        """The CA's own certificate, PEM."""
        return _pem(self._certificate)

    def server(self, names: Iterable[str]) -> Issued:
        """Return a certificate of a broker that is reached by these host names and addresses."""
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        return self._issue("broker", ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def user(self, name: str) -> Issued:
        """Return a certificate of a user of the broker, whose common name is the user name."""
        issued = self._issue(name, ExtendedKeyUsageOID.CLIENT_AUTH)
        serial = x509.load_pem_x509_certificate(issued.certificate.encode()).serial_number
        make_private_folder(self._folder / ISSUED)
        lines = "".join(f"{known:x}\n" for known in (*self._issued(name), serial))
        write_secret(self._folder / ISSUED / name, lines)
        return issued

    def certifies(self, name: str) -> bool:
        """Return whether a certificate of a user's still counts."""
        return bool(self._issued(name))

    def revoke(self, names: Iterable[str] = ()) -> str:
        """Take back every certificate of these users; return the list of all that are, PEM.

        A list is newer than the one before by a second at least, for that is how a broker that
        reads it again chooses between them.
        """
        names, out = tuple(names), self._revoked()
        serials = {entry.serial_number for entry in out or ()}
        added = {serial for name in names for serial in self._issued(name)} - serials
        if out is not None and not added:
            return _pem(out)
        now = datetime.now(timezone.utc)
        begins = now - _DAY
        if out is not None:
            begins = max(begins, out.last_update_utc + timedelta(seconds=1))
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .last_update(begins)
            .next_update(now + YEARS * 365 * _DAY)
        )
        for serial in sorted(serials | added):
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(begins)
            builder = builder.add_revoked_certificate(entry.build())
        made = _pem(builder.sign(self._key, hashes.SHA256()))
        write_secret(self._folder / REVOKED, made)
        for name in names:
            forget_secret(self._folder / ISSUED / name)
        return made

    def _issued(self, name: str) -> tuple[int, ...]:
        try:
            text = (self._folder / ISSUED / name).read_text(encoding="ascii")
        except FileNotFoundError:
            return ()
        return tuple(int(line, 16) for line in text.split())

    def _revoked(self) -> x509.CertificateRevocationList | None:
        try:
            return x509.load_pem_x509_crl((self._folder / REVOKED).read_bytes())
        except FileNotFoundError:
            return None

    def _issue(
        self,
        name: str,
        use: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(_name(name), self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return Issued(_pem(builder.sign(self._key, hashes.SHA256())), _private(key))


def names_of(certificate_file: Path) -> Collection[str]:
    """Return the host names and addresses of a broker's certificate; none where there is none."""
    try:
        found = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return ()
    return {str(name.value) for name in names}


def _self_signed(fleet: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name(f"fleetledger {fleet}"[:_LONGEST_NAME])
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + YEARS * 365 * _DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(signed: x509.Certificate | x509.CertificateRevocationList) -> str:
    return signed.public_bytes(serialization.Encoding.PEM).decode("ascii")


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode("ascii")
