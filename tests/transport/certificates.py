"""A certificate authority for tests: makes certificates as an operator's own would."""

import ipaddress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)


class Authority:
    """A CA whose files lie in `folder`: `ca.pem`, and NAME.pem with NAME.key for each user."""

    def __init__(self, folder: Path, name: str = "Test CA", ends: timedelta = DAY) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca_file = folder / "ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key(), ends=ends)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file.write_bytes(_pem(self._certificate))

    def server(self, *names: str, begins: timedelta = -DAY, ends: timedelta = DAY) -> Path:
        """Make a broker's certificate for these host names and addresses; return its file."""
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        return self._issue("broker", [alternatives], ExtendedKeyUsageOID.SERVER_AUTH, begins, ends)

    def user(self, name: str, password: bytes | None = None, ends: timedelta = DAY) -> Path:
        """Make a user's certificate; return its file."""
        use = ExtendedKeyUsageOID.CLIENT_AUTH
        return self._issue(name, [], use, ends=ends, password=password)

    def _issue(
        self,
        name: str,
        extensions: list[Any],
        use: x509.ObjectIdentifier,
        begins: timedelta = -DAY,
        ends: timedelta = DAY,
        password: bytes | None = None,
    ) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self._name, key.public_key(), begins, ends)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        for extension in (*extensions, x509.ExtendedKeyUsage([use]), issuer):
            builder = builder.add_extension(extension, critical=False)
        file = self.folder / f"{name}.pem"
        file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        locked = (
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption()
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked
        )
        file.with_suffix(".key").write_bytes(private)
        file.with_suffix(".key").chmod(0o600)
        return file


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    begins: timedelta = -DAY,
    ends: timedelta = DAY,
) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
