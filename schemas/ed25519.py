"""Ed25519 by one rule, whichever library computes it: libsodium (PyNaCl), else OpenSSL.

Libraries differ at the edges ("Taming the many EdDSAs", 2020), and no ledger may depend on which is
installed. A signature R || S of M by the key A is accepted if and only if

    A and R    are in their one form (y < p), and no points of small order
    S          is below the order of the base point
    R          equals the encoding of S B - H(R || A || M) A, byte for byte: no cofactor

libsodium obeys this rule; OpenSSL leaves out the first line, which is judged here. A libsodium that
judges the known cases otherwise, as one with the cofactor would, is not used. Signatures that are
made are those of RFC 8032 in either.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

SEED_BYTES = 32
SIGNATURE_BYTES = 64

_POINT_BYTES = 32
_KNOWN_KEYS = 4096
"""Public keys that OpenSSL keeps ready for checking."""
_PRIME = 2**255 - 19
_SMALL = frozenset(
    {
        0,
        1,
        _PRIME - 1,
        0x5FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    }
)
"""y of the eight points whose order divides 8."""
_DER = bytes.fromhex("302e020100300506032b657004220420")
"""What stands before the seed in PKCS 8."""
_PEM = re.compile(rb"-----BEGIN PRIVATE KEY-----\n([A-Za-z0-9+/]{64})\n-----END PRIVATE KEY-----\n")

_CASE = b"fleetledger"
_KEY = "93c9449be4e3975f799a691f11d3bdab8ac6348ba2afbdfb9310fdb6b32ebdd7"
_CASES = (
    (  # made as RFC 8032 says
        _KEY,
        "62a1b4e66acb0b37d06030fb317ac0bca8b164f543999ac033114378078f8fcf"
        "050478d100e43427c6ba716ea5347847e93897d2e390768a10628834fc10cc0c",
        True,
    ),
    (  # the order added to S
        _KEY,
        "62a1b4e66acb0b37d06030fb317ac0bca8b164f543999ac033114378078f8fcf"
        "f2d76d2e1b47477f9c576911842e575ce93897d2e390768a10628834fc10cc1c",
        False,
    ),
    (  # a point of order 8 added to R: the equation holds with the cofactor alone
        _KEY,
        "0e1273217677fd3e28866d181567dbf608acbe80634c71a148bdee6044be12ad"
        "1f19ddd2bcb5d961d3fe7eacf7d9ca4ca4675da098ba9e5aca3596b65c5a6e04",
        False,
    ),
    (  # a point of order 8 added to A, and the equation holds
        "afe985e432d16abaeed0fbd848db44520ef193bdde65d944b6a942a8f97ab11c",
        "5866666666666666666666666666666666666666666666666666666666666666"
        "504cfe9489e32988ee893765d9282589e9e68b7c21b6cda7891b05ee1142e103",
        True,
    ),
)
"""Key, signature of `_CASE`, and the rule's verdict."""


@dataclass(frozen=True)
class Ed25519Library:
    """Who computes. `verify` alone is not the rule; `verifies` is."""

    name: str
    public: Callable[[bytes], bytes]
    """Return the public key of a seed."""
    sign: Callable[[bytes, bytes, bytes], bytes]
    """Return the signature by seed and public key of a message."""
    verify: Callable[[bytes, bytes, bytes], bool]
    """Tell whether public key and signature (64 bytes) fit a message."""

    def verifies(self, public: bytes, signature: bytes, message: bytes) -> bool:
        """Tell whether the rule accepts a signature by a public key of 32 bytes."""
        return (
            len(signature) == SIGNATURE_BYTES
            and _is_sound(public)
            and _is_sound(signature[:_POINT_BYTES])
            and self.verify(public, signature, message)
        )

    def obeys_rule(self) -> bool:
        """Tell whether the known cases are judged as the rule does."""
        return all(
            self.verifies(bytes.fromhex(public), bytes.fromhex(signature), _CASE) is verdict
            for public, signature, verdict in _CASES
        )


@cache
def library() -> Ed25519Library:
    """Return who computes here: libsodium, where it is installed and obeys the rule."""
    found = sodium()
    return openssl() if found is None or not found.obeys_rule() else found


def sodium() -> Ed25519Library | None:
    """Return libsodium by PyNaCl; None where that is not installed."""
    try:
        from nacl import bindings  # noqa: PLC0415 - loaded where something is signed
        from nacl.exceptions import BadSignatureError  # noqa: PLC0415
    except ImportError:
        return None

    def public(seed: bytes) -> bytes:
        return bindings.crypto_sign_seed_keypair(seed)[0]

    def sign(seed: bytes, public: bytes, message: bytes) -> bytes:
        return bindings.crypto_sign(message, seed + public)[:SIGNATURE_BYTES]

    def verify(public: bytes, signature: bytes, message: bytes) -> bool:
        try:
            bindings.crypto_sign_open(signature + message, public)
        except BadSignatureError:
            return False
        return True

    return Ed25519Library("libsodium", public, sign, verify)


def openssl() -> Ed25519Library:
    """Return OpenSSL by `cryptography`, which takes eight times the memory of libsodium."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - see `sodium`
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    @lru_cache(maxsize=_KNOWN_KEYS)
    def ready(public: bytes) -> Ed25519PublicKey:
        return ed25519.Ed25519PublicKey.from_public_bytes(public)

    @lru_cache(maxsize=16)
    def private(seed: bytes) -> Ed25519PrivateKey:
        return ed25519.Ed25519PrivateKey.from_private_bytes(seed)

    def public(seed: bytes) -> bytes:
        return private(seed).public_key().public_bytes_raw()

    def sign(seed: bytes, _public: bytes, message: bytes) -> bytes:
        return private(seed).sign(message)

    def verify(public: bytes, signature: bytes, message: bytes) -> bool:
        try:
            ready(public).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return Ed25519Library("OpenSSL", public, sign, verify)


def seed_pem(seed: bytes) -> bytes:
    """Return a seed as unencrypted PKCS 8 in PEM."""
    text = base64.b64encode(_DER + seed)
    return b"-----BEGIN PRIVATE KEY-----\n" + text + b"\n-----END PRIVATE KEY-----\n"


def pem_seed(data: bytes) -> bytes | None:
    """Return the seed in PEM as `seed_pem` writes it; None for anything else."""
    found = _PEM.fullmatch(data)
    inner = base64.b64decode(found[1]) if found else b""
    return inner[len(_DER) :] if inner.startswith(_DER) else None


def _is_sound(point: bytes) -> bool:
    """Tell whether 32 bytes have y < p and tell of no point of small order."""
    y = int.from_bytes(point, "little") & (1 << 255) - 1
    return y < _PRIME and y not in _SMALL
