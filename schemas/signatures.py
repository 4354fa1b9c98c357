"""Signatures beside a document: which key made each, and its 64 bytes in base64.

What is in a signature that crossed the wire is judged by `signers` and not when it is read, so
that whoever refuses it can say which document it was about.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from pydantic import Field
from typing_extensions import Self

from fleetledger.runtime.errors import shorten
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.ed25519 import SIGNATURE_BYTES
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import SigningKey, VerifyKey


class KeySignature(Strict):
    """One signature; `key` is the hash by which a `VerifyKey` is named, 8 hexadecimal digits."""

    key: str = Field(min_length=1, max_length=16)
    signature: str = Field(max_length=200)
    """Base64 of 64 bytes, in its one spelling."""

    @classmethod
    def of(cls, key: SigningKey, domain: str, message: bytes) -> Self:
        """Sign `message` for that purpose."""
        signature = base64.b64encode(key.sign(domain, message)).decode("ascii")
        return cls(key=name_of(key.verify_key), signature=signature)

    def decoded(self) -> bytes:
        """Return the 64 bytes; raise `SignatureError` for another length or spelling."""
        try:
            data = base64.b64decode(self.signature.encode("ascii"), validate=True)
        except (UnicodeEncodeError, binascii.Error):
            data = b""
        if len(data) != SIGNATURE_BYTES or base64.b64encode(data).decode() != self.signature:
            raise SignatureError(
                f"signature: {shorten(self.signature)} of key {self.key} is not base64 of "
                f"{SIGNATURE_BYTES} bytes; it was cut short or altered"
            )
        return data


def name_of(key: VerifyKey) -> str:
    """Return the hash by which signatures name a key, in hexadecimal."""
    return key.key_hash.hex()


def signers(
    signatures: Iterable[KeySignature], keys: Iterable[VerifyKey], domain: str, message: bytes
) -> frozenset[bytes]:
    """Return the public keys, of `keys`, that signed; a key counts once however often it signed.

    Signatures by other keys are left alone. Raises `SignatureError` for one that names one of
    `keys` and is not its signature of `message`.
    """
    known = {name_of(key): key for key in keys}
    found = set()
    for item in signatures:
        key = known.get(item.key)
        if key is not None:
            key.check(item.decoded(), domain, message)
            found.add(key.public)
    return frozenset(found)
