r"""Ed25519 keys (RFC 8032): who signs, and what a signature is over.

A public key is written as C2SP's signed notes write theirs, so that other programs read it:

    name+hash+key
    key     base64 of 0x01 || public key (32 bytes)
    hash    first 4 bytes of SHA-256(name || "\n" || 0x01 || public key), hexadecimal

A signature is over `domain || 0x00 || message`: what is signed for one purpose is worth nothing
for another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from typing_extensions import Self

from fleetledger.runtime.errors import InvalidValueError, shorten
from fleetledger.schemas.ed25519 import SEED_BYTES, SIGNATURE_BYTES, library, pem_seed, seed_pem
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.values import ValidatedText

_KNOWN_KEYS = 4096
"""Public keys whose bytes are kept ready for checking."""
_ED25519 = b"\x01"
"""Names the algorithm in a note's key."""


class KeyHash(ValidatedText):
    """The 4 bytes by which a signature names its key."""

    pattern = re.compile(r"[0-9a-f]{8}")
    rule = "8 lower-case hexadecimal digits"


class SignatureText(ValidatedText):
    """A signature as text: base64 of its 64 bytes, of which only one spelling is accepted."""

    pattern = re.compile(r"[A-Za-z0-9+/]{85}[AQgw]==")
    rule = "base64 of 64 bytes, padded, the unused bits zero"

    @classmethod
    def of(cls, signature: bytes) -> Self:
        """Return the text of 64 bytes."""
        text = base64.b64encode(signature).decode("ascii")
        return cls.known(text) if len(signature) == SIGNATURE_BYTES else cls(text)

    @property
    def raw(self) -> bytes:
        """The 64 bytes."""
        return base64.b64decode(self)


class KeyName(ValidatedText):
    """Name of a key, as its signatures carry it."""

    pattern = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,159}")
    rule = "1 to 160 of A-Z, a-z, 0-9, '.', '_', '/' and '-', beginning with a letter or digit"


class VerifyKey(ValidatedText):
    """A public key with its name, as text; see the module."""

    pattern = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,159}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}")
    rule = "NAME+HASH+KEY, as `fleetledger` prints it"

    @classmethod
    def obeys_rule(cls, text: str) -> bool:
        """Tell whether the parts are there and the hash is that of name and key."""
        if not super().obeys_rule(text):
            return False
        name, found, encoded = text.split("+", 2)
        try:
            key = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            return False
        return len(key) == 33 and key[:1] == _ED25519 and _key_hash(name, key).hex() == found

    @classmethod
    def of(cls, name: KeyName, public: bytes) -> Self:
        """Return the text of a public key of 32 bytes."""
        key = _ED25519 + public
        return cls(f"{name}+{_key_hash(name, key).hex()}+{base64.b64encode(key).decode('ascii')}")

    @property
    def name(self) -> KeyName:
        """Who signs with it."""
        return KeyName(self.split("+", 1)[0])

    @property
    def key_hash(self) -> bytes:
        """Return the 4 bytes by which signatures name it."""
        return bytes.fromhex(self.split("+", 2)[1])

    @property
    def short_name(self) -> KeyHash:
        """The same as text."""
        return _short_name(self)

    @property
    def public(self) -> bytes:
        """Return the 32 bytes of the key."""
        return base64.b64decode(self.split("+", 2)[2])[1:]

    def check(self, signature: bytes, domain: str, message: bytes) -> None:
        """Raise `SignatureError` unless this key signed `message` for that purpose."""
        if not library().verifies(_public(self), signature, signed_bytes(domain, message)):
            raise SignatureError(
                f"signature: is not that of {self.name!r} over these bytes as {domain!r}; "
                "they were altered, or somebody else signed them"
            )


@dataclass(frozen=True)
class SigningKey:
    """A private key with its name; its text form is never shown by accident."""

    name: KeyName
    seed: bytes = field(repr=False)
    """The private key of RFC 8032, 32 bytes."""

    @classmethod
    def fresh(cls, name: KeyName) -> Self:
        """Return a new random key."""
        return cls(name, secrets.token_bytes(SEED_BYTES))

    @classmethod
    def from_pem(cls, name: KeyName, data: bytes) -> Self:
        """Read a key in PEM, as `pem` or another program wrote it.

        Raises `SignatureError` for anything else.
        """
        seed = pem_seed(data)
        return cls(name, _foreign_seed(name, data) if seed is None else seed)

    @property
    def pem(self) -> bytes:
        """The key as unencrypted PKCS 8 in PEM: a file that its owner alone may read."""
        return seed_pem(self.seed)

    @cached_property
    def verify_key(self) -> VerifyKey:
        """The public half."""
        return VerifyKey.of(self.name, self._public)

    def sign(self, domain: str, message: bytes) -> bytes:
        """Return the signature, 64 bytes, of `message` for that purpose."""
        return library().sign(self.seed, self._public, signed_bytes(domain, message))

    @cached_property
    def _public(self) -> bytes:
        return library().public(self.seed)


def signed_bytes(domain: str, message: bytes) -> bytes:
    """Return what is signed; an empty domain, of signed notes alone, leaves the bytes as they are.

    Raises `InvalidValueError` for a domain in which the end could not be told.
    """
    if "\x00" in domain:
        raise InvalidValueError("domain", domain, "give text without NUL")
    return domain.encode() + b"\x00" + message if domain else message


def read_verify_key(text: str) -> VerifyKey:
    """Return a public key from what a person typed or a file holds."""
    try:
        return VerifyKey(text.strip())
    except InvalidValueError as error:
        raise SignatureError(
            f"key: {shorten(text)} is none; give {VerifyKey.rule}, whole"
        ) from error


@lru_cache(maxsize=_KNOWN_KEYS)
def _short_name(key: VerifyKey) -> KeyHash:
    return KeyHash(key.key_hash.hex())


@lru_cache(maxsize=_KNOWN_KEYS)
def _public(key: VerifyKey) -> bytes:
    return key.public


def _foreign_seed(name: KeyName, data: bytes) -> bytes:
    """Return the seed in a file that another program wrote."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - rarely needed
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    try:
        private = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise SignatureError(f"key of {name!r}: no private key in PEM: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise SignatureError(f"key of {name!r}: {type(private).__name__}; give an Ed25519 key")
    return private.private_bytes_raw()


def _key_hash(name: str, key: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + key).digest()[:4]
