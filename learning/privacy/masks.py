r"""Masks that vanish in the sum of a cohort: Bonawitz et al. 2017, "Practical Secure Aggregation".

Vectors are words of 64 bits, added modulo 2^64. Member i of a cohort, whose members have an order,
adds to its vector x_i

    y_i = x_i + sum_{j > i} PRG(s_ij) - sum_{j < i} PRG(s_ij) + PRG(b_i)

with a seed s_ij that i and j alone have in common, and a seed b_i of its own. In the sum over all
members the first vanish. The others are taken off with the b_i, which are shared among the members
(`learning.privacy.shares`) and told for those whose y_i is in the sum; for a member whose y_j never
came, the others tell their s_ij. Who tells never both for one member keeps x_i hidden.

Seeds come from X25519 (RFC 7748) by HKDF (RFC 5869), bound to the cohort; PRG is the key stream of
AES-256 in counter mode. Shares travel in AES-256-GCM. A sum of integers that stays between -2^63
and 2^63 - 1 is exact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fleetledger.learning.errors import RangeError

if TYPE_CHECKING:  # an agent without masks starts without it
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

Words = npt.NDArray[np.uint64]

SEED_BYTES = 32
_BLOCK = 1 << 16
"""Words that are masked at once: what they need stays in the cache."""
_ZEROS = bytes(8 * _BLOCK)


def own_key(secret: bytes, purpose: str) -> X25519PrivateKey:
    """Return the key for one purpose that a device's secret gives, the same each time."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415 - see the top
        X25519PrivateKey,
    )

    return X25519PrivateKey.from_private_bytes(derived(secret, f"mask key/{purpose}"))


def derived(secret: bytes, purpose: str) -> bytes:
    """Return 32 bytes that a secret gives for one purpose, by HKDF."""
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    info = f"fleetledger/{purpose}".encode()
    return HKDF(hashes.SHA256(), SEED_BYTES, None, info).derive(secret)


def commitment(vector: Words, nonce: bytes) -> str:
    """Return what binds a device to a vector without telling it, hexadecimal."""
    found = hashlib.sha256(np.ascontiguousarray(vector, "<u8").tobytes())
    found.update(nonce)
    return found.hexdigest()


@dataclass(frozen=True)
class SharedSecret:
    """What two members of a cohort have in common."""

    seed: bytes
    """s_ij, of their masks."""
    _sealing: bytes

    @classmethod
    def of(cls, own: X25519PrivateKey, other: bytes, cohort: str) -> SharedSecret:
        """Return that of a member's own key and another's public one, in the cohort of this name.

        Raises `RangeError` for a public key that gives no secret.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415
            X25519PublicKey,
        )

        try:
            secret = own.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError as error:
            raise RangeError(f"mask_key: {other.hex()} gives no secret ({error})") from error
        return cls(
            derived(secret, f"mask seed/{cohort}"), derived(secret, f"mask sealing/{cohort}")
        )

    def seal(self, share: bytes, sender: str) -> bytes:
        """Return a share that the other member alone can read."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        return AESGCM(self._sealing).encrypt(_nonce(sender), share, sender.encode())

    def open(self, sealed: bytes, sender: str) -> bytes:
        """Return the share that the other member sealed; raise `RangeError` where it did not."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        try:
            return AESGCM(self._sealing).decrypt(_nonce(sender), sealed, sender.encode())
        except InvalidTag:
            raise RangeError(f"shares: that of {sender!r} was not sealed for this device") from None


def mask(vector: Words, place: int, pairs: Mapping[int, bytes], own: bytes) -> Words:
    """Return y_i of the member at `place`, with its seeds s_ij by the others' places, and b_i."""
    masked: Words = vector.copy()
    add_mask(masked, own)
    for other, seed in pairs.items():
        add_mask(masked, seed, taken_off=other < place)
    return masked


def unmask(
    total: Words,
    own: Iterable[bytes],
    missing: Mapping[int, Mapping[int, bytes]],
) -> None:
    """Take off what masks left in the sum `total` of those y_i that came.

    `own` are the b_i of those that came; `missing` has for each place that did not come the seeds
    s_ij by the place i of each that did.
    """
    for seed in own:
        add_mask(total, seed, taken_off=True)
    for silent, seeds in missing.items():
        for place, seed in seeds.items():
            add_mask(total, seed, taken_off=silent > place)


def add_mask(words: Words, seed: bytes, *, taken_off: bool = False) -> None:
    """Add PRG(seed) to words, or take it off, in their memory."""
    from cryptography.hazmat.primitives.ciphers import (  # noqa: PLC0415
        Cipher,
        algorithms,
        modes,
    )

    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
    room = bytearray(8 * _BLOCK + 15)
    change = np.subtract if taken_off else np.add
    for start in range(0, len(words), _BLOCK):
        part = words[start : start + _BLOCK]
        stream.update_into(memoryview(_ZEROS)[: part.nbytes], room)
        change(part, np.frombuffer(room, "<u8", len(part)), out=part)


def _nonce(sender: str) -> bytes:
    """Return the nonce of the one message that a member seals for another in a cohort."""
    return hashlib.sha256(sender.encode()).digest()[:12]
